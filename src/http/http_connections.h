// The HTTP connections of one io thread.
//
// Loop thread only, the constructor and destructor excepted.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "http/connection_limit.h"
#include "http/http_connection.h"
#include "http/http_options.h"
#include "http/router.h"
#include "net/io_threads.h"
#include "net/socket.h"

namespace sluice {

class HttpConnections;

// What the threads of one server share.
struct HttpServing {
  net::IoThreads& threads;
  Router router;
  HttpOptions options;
  ConnectionLimit limit;
  std::vector<std::unique_ptr<HttpConnections>> by_thread;
};

class HttpConnections {
 public:
  // Both must outlive this.
  HttpConnections(net::EpollLoop& loop, HttpServing& serving) : loop_(loop), serving_(serving) {}

  // A connection on its way to its thread.
  struct Arrival {
    net::Socket socket;
    net::IoThreads::Place place;
    std::size_t turned_away = 0;  // by so many threads
  };

  // A new one. If there are too many, the longest idle one of this thread is closed for it; if none
  // is idle here, it goes to the next thread; if none is idle anywhere, it is closed.
  void Add(Arrival arrival);

  // Adds it on the thread of its place.
  static void Deliver(HttpServing& serving, Arrival arrival);

  // Closes it, and destroys it at the end of the turn.
  void Remove(HttpConnection& connection);
  // For good: those still to come are closed, too.
  void CloseAll();

  // It waits for a request from now on, or no longer.
  void NoteIdle(HttpConnection& connection);
  void NoteBusy(HttpConnection& connection);

  net::EpollLoop& loop() { return loop_; }
  const Router& router() const { return serving_.router; }
  const HttpOptions& options() const { return serving_.options; }

 private:
  bool MakeRoom();
  void PassOn(Arrival arrival);

  net::EpollLoop& loop_;
  HttpServing& serving_;
  std::unordered_map<const HttpConnection*, std::unique_ptr<HttpConnection>> connections_;
  std::list<HttpConnection*> idle_;  // the longest first
  bool closed_ = false;
};

}  // namespace sluice
