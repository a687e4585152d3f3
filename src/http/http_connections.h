// The HTTP connections of one io thread.
//
// Loop thread only, the constructor and destructor excepted.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>

#include "http/connection_limit.h"
#include "http/http_connection.h"
#include "http/http_options.h"
#include "http/router.h"
#include "net/io_threads.h"
#include "net/socket.h"

namespace sluice {

// What the threads of one server share.
struct HttpServing {
  Router router;
  HttpOptions options;
  ConnectionLimit limit;
};

class HttpConnections {
 public:
  // Both must outlive this.
  HttpConnections(net::EpollLoop& loop, HttpServing& serving) : loop_(loop), serving_(serving) {}

  // A new one. If there are too many, the longest idle one of this thread is closed for it; if none
  // is idle, the new one.
  void Add(net::Socket socket, net::IoThreads::Place place);

  // Closes it, and destroys it at the end of the turn.
  void Remove(HttpConnection& connection);
  void CloseAll();

  // It waits for a request from now on, or no longer.
  void NoteIdle(HttpConnection& connection);
  void NoteBusy(HttpConnection& connection);

  net::EpollLoop& loop() { return loop_; }
  const Router& router() const { return serving_.router; }
  const HttpOptions& options() const { return serving_.options; }

 private:
  bool MakeRoom();

  net::EpollLoop& loop_;
  HttpServing& serving_;
  std::unordered_map<const HttpConnection*, std::unique_ptr<HttpConnection>> connections_;
  std::list<HttpConnection*> idle_;  // the longest first
};

}  // namespace sluice
