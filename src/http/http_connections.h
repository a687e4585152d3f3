// The HTTP connections of one io thread.
//
// Loop thread only, except for the constructor and the destructor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "http/connection_limit.h"
#include "http/http_connection.h"
#include "http/http_options.h"
#include "http/router.h"
#include "net/io_threads.h"
#include "net/socket.h"

namespace sluice {

class HttpConnections;

// The state that all threads of a server share.
struct HttpServing {
  net::IoThreads& threads;
  Router router;
  HttpOptions options;
  ConnectionLimit limit;
  std::vector<std::unique_ptr<HttpConnections>> by_thread;
  // Connections posted to a thread, which `limit` does not count yet.
  std::atomic<std::size_t> arriving = 0;
  // Requests that were read, since the start.
  std::atomic<std::uint64_t> requests = 0;
};

class HttpConnections {
 public:
  // Both must outlive this object.
  HttpConnections(net::EpollLoop& loop, HttpServing& serving) : loop_(loop), serving_(serving) {}

  // An accepted connection that is not yet added to a thread.
  struct Arrival {
    net::Socket socket;
    net::IoThreads::Place place;
    std::size_t turned_away = 0;  // number of threads that had no room
  };

  // Adds a connection. If the limit is reached, closes others of this thread (net/eviction.h). If
  // none may be closed here, passes the new one to the next thread. If none may be closed anywhere,
  // the new one gets no place.
  void Add(Arrival arrival);

  // Adds a connection on the thread of its place, or on the calling io thread if too many wait for
  // others.
  static void Deliver(HttpServing& serving, Arrival arrival);

  // Closes a connection and destroys it at the end of the iteration.
  void Remove(HttpConnection& connection);
  // Makes the next response of each connection its last, of those added later, too.
  void Drain();
  bool draining() const { return draining_; }
  // Closes all connections, including those added later.
  void CloseAll();

  // Record that a handler begins, or ends, to work on a connection's request.
  void NoteAnswering() { ++answering_; }
  void NoteAnswered() { --answering_; }
  // Whether a response may be delayed: at most half of the places wait.
  bool MayWait() const;
  // Records the bytes that a connection holds. Beyond the maximum, soon closes connections.
  void NoteBuffered(std::size_t before, std::size_t now);

  void NoteRequest() { serving_.requests.fetch_add(1, std::memory_order_relaxed); }
  void NoteRefusedRequest() { serving_.limit.NoteRefusedRequest(); }

  net::EpollLoop& loop() { return loop_; }
  const Router& router() const { return serving_.router; }
  const HttpOptions& options() const { return serving_.options; }

 private:
  bool MakeRoom(const std::string& newcomer);
  void PassOn(Arrival arrival);
  void MakeRoomWithoutPlace();
  void FreeMemory();
  std::size_t MostBuffered() const;
  // The connections with a place, and which of them to close: ChooseVictims.
  std::vector<HttpConnection*> Victims(const std::string& newcomer, std::size_t count) const;

  net::EpollLoop& loop_;
  HttpServing& serving_;
  std::map<std::uint64_t, std::unique_ptr<HttpConnection>> connections_;  // by their numbers
  std::uint64_t last_number_ = 0;
  std::deque<HttpConnection*> without_place_;  // the oldest first
  std::size_t answering_ = 0;
  std::size_t buffered_ = 0;
  bool freeing_ = false;  // FreeMemory is posted
  bool draining_ = false;
  bool closed_ = false;
};

}  // namespace sluice
