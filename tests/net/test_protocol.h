// A scripted protocol for tests, and blocking sockets for its peer.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "net/io_threads.h"
#include "net/socket.h"
#include "net/transport.h"

namespace sluice::net {

// Records all callbacks. While the loop runs, only the loop's thread may use the object.
class TestProtocol : public Protocol {
 public:
  void Receive(std::string_view bytes) override {
    received += bytes;
    largest_receive = std::max(largest_receive, bytes.size());
    if (on_receive) on_receive(bytes);
  }
  void TakeOutput(std::string& out) override {
    ++takes;
    if (on_take) return on_take(out);
    const std::size_t size = std::min(output.size(), Transport::kFlushBytes);
    out.append(output, 0, size);
    output.erase(0, size);
  }
  void OnClosed(Closure closure, std::string_view cause) override {
    closures.push_back(closure);
    causes.emplace_back(cause);
    if (on_closed) on_closed();
  }
  void OnDrained() override { ++drains; }

  bool lost() const { return !closures.empty() && closures.back() == Closure::kLost; }

  std::string received;
  std::string output;  // output not taken yet
  std::vector<Closure> closures;
  std::vector<std::string> causes;
  std::size_t largest_receive = 0;
  int takes = 0;
  int drains = 0;
  std::function<void(std::string_view)> on_receive;
  std::function<void(std::string&)> on_take;
  std::function<void()> on_closed;
  TransportPtr transport;
};

// One running io thread.
class OneIoThread {
 public:
  explicit OneIoThread(Resolver::Lookup lookup = Resolver::SystemLookup)
      : threads_(1, std::move(lookup)) {
    threads_.Start();
  }

  EpollLoop& loop() { return threads_.loop(0); }

  // Runs `task` on the loop's thread and returns its result.
  template <typename Task>
  auto Run(const Task& task) {
    if constexpr (std::is_void_v<std::invoke_result_t<Task>>) {
      threads_.RunOn(0, [&](EpollLoop&) { task(); });
    } else {
      std::invoke_result_t<Task> result;
      threads_.RunOn(0, [&](EpollLoop&) { result = task(); });
      return result;
    }
  }

 private:
  IoThreads threads_;
};

// A blocking socket that waits at most 10 s.
class BlockingSocket {
 public:
  // If no data arrives for 10 s, a read ends with this text, so that a timeout differs from the end
  // of the input.
  static constexpr std::string_view kNothing = "(nothing for 10 s)";

  explicit BlockingSocket(Socket socket);

  // `from`: the client's own IPv4 address; empty: any.
  static BlockingSocket ConnectTo(const Address& address, const std::string& from = {});

  void Send(std::string_view bytes);
  // Sends all of `bytes`, and waits for a slow peer. Returns false if the peer has closed, or reads
  // nothing for 10 s.
  bool SendAll(std::string_view bytes);
  // Waits for at least one byte, and reads the available bytes. Empty if the peer has closed.
  std::string ReadSome();
  // Reads `size` bytes, or fewer if the peer closes.
  std::string Read(std::size_t size);
  std::string ReadAll() { return Read(static_cast<std::size_t>(-1)); }
  void FinishSending() { shutdown(socket_.fd(), SHUT_WR); }
  // Closes the connection with a TCP reset.
  void Reset();
  void Close() { socket_.Close(); }
  int fd() const { return socket_.fd(); }
  // Returns true if the connection is open and has no unread bytes.
  bool IsSilent() const;

 private:
  Socket socket_;
};

enum class SocketKind { kUnix, kTcp };

// Two connected sockets. The first is non-blocking. `buffer_bytes`: the size of their buffers; 0:
// the system's default.
std::pair<Socket, BlockingSocket> ConnectedPair(SocketKind kind, int buffer_bytes = 8 * 1024);

}  // namespace sluice::net
