#include "net/connection_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/notification.h"
#include "tests/net/test_protocol.h"
#include "tests/support/temp_dir.h"

namespace sluice::net {
namespace {

// A connection. If it has a place, it sends '+', otherwise '-'. Then it waits until the client or
// the server closes it.
class Greeter final : public ServedConnection {
 public:
  Greeter(Loop& loop, TransportPtr transport, bool has_place)
      : ServedConnection(loop, std::move(transport), has_place) {}

  void Start() override {
    transport_->Start(*this);
    transport_->RequestFlush();
  }
  void Drain() override { Close(); }
  Occupant AsOccupant() const override { return {}; }

 private:
  void Receive(std::string_view) override {}
  void TakeOutput(std::string& out) override {
    if (!std::exchange(greeted_, true)) out += has_place() ? '+' : '-';
  }
  void OnClosed(Closure, std::string_view) override { Close(); }

  bool greeted_ = false;
};

class ConnectionServerTest : public testing::Test {
 protected:
  ConnectionServerTest() { threads_.Start(); }
  ~ConnectionServerTest() override {
    server_->Stop(Duration::zero(), nullptr);
    threads_.Stop();
  }

  void Start(std::size_t max_connections) {
    server_ = ConnectionServer::Listen(threads_,
                                       {.address = address_, .max_connections = max_connections})
                  .value();
    server_->Start({.make =
                        [](EpollLoop& loop, TransportPtr transport, bool has_place) {
                          return std::make_unique<Greeter>(loop, std::move(transport), has_place);
                        },
                    .on_refused = [] {},
                    .on_replaced = [] {}});
  }

  // Connects from the address `from`, and expects that the connection has a place. Loop `index`
  // gets the connection, because 20 connections are first assigned to the other loop.
  BlockingSocket ConnectTo(std::size_t index, const std::string& from) {
    std::vector<LoopAssignment> busy;
    for (int i = 0; i < 20; ++i) busy.push_back(threads_.AssignTo(1 - index));
    auto socket = BlockingSocket::ConnectTo(server_->address(), from);
    EXPECT_EQ(socket.Read(1), "+");
    return socket;
  }

  const test::TempDir dir_;
  Address address_{.host = {}, .unix_path = dir_.path() / "socket"};
  IoThreads threads_{2};
  std::unique_ptr<ConnectionServer> server_;
};

TEST_F(ConnectionServerTest, Connection_BeyondTheLimit_ReplacesAnIdleOne) {
  Start(4);
  std::vector<BlockingSocket> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(BlockingSocket::ConnectTo(address_));
    EXPECT_EQ(clients.back().Read(1), "+") << i;
  }
  EXPECT_LE(server_->count().open(), 4U);
}

// At first, all connections of the honest network are on loop 1, and all connections of the greedy
// network are on loop 0. The greedy network has more connections. So new connections on loop 1 must
// replace connections of the greedy network.
TEST_F(ConnectionServerTest, GreedyNetworkIsOnAnotherLoop_ItsConnectionsAreReplaced) {
  address_ = {.host = "127.0.0.1"};
  Start(6);
  std::vector<BlockingSocket> honest, greedy;
  for (int i = 0; i < 2; ++i) honest.push_back(ConnectTo(1, "127.0.0.1"));
  for (int i = 0; i < 4; ++i) greedy.push_back(ConnectTo(0, "127.0.0.2"));
  for (int i = 0; i < 3; ++i) greedy.push_back(ConnectTo(1, "127.0.0.2"));
  honest.push_back(ConnectTo(1, "127.0.0.1"));
  for (std::size_t i = 0; i < honest.size(); ++i) EXPECT_TRUE(honest[i].IsSilent()) << i;
}

// The number of connections posted to the other loop is bounded, since each holds a file
// descriptor.
TEST_F(ConnectionServerTest, OtherLoopIsStuck_NewConnectionsGetPlacesOnTheFirstLoop) {
  Start(4);
  std::vector<BlockingSocket> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(BlockingSocket::ConnectTo(address_));
    EXPECT_EQ(clients.back().Read(1), "+") << i;
  }
  Notification release;
  threads_.loop(1).Post([&] { release.Wait(); });
  // At most 64 of these connections wait for the other loop. The first loop serves the others, and
  // the last connection that it serves keeps its place.
  for (int i = 0; i < 300; ++i) clients.push_back(BlockingSocket::ConnectTo(address_));
  std::vector<pollfd> last;
  for (std::size_t i = clients.size() - 65; i < clients.size(); ++i) {
    last.push_back({.fd = clients[i].fd(), .events = POLLIN, .revents = 0});
  }
  bool has_place = false;
  while (!has_place && poll(last.data(), last.size(), 10'000) > 0) {
    for (pollfd& it : last) {
      if (it.revents == 0) continue;
      char answer = 0;
      has_place |= read(it.fd, &answer, 1) == 1 && answer == '+';
      it.fd = -1;  // answered or closed
    }
  }
  EXPECT_TRUE(has_place);
  release.Notify();
  threads_.RunOn(1, [](EpollLoop&) {});  // `release` must outlive the wait
}

}  // namespace
}  // namespace sluice::net
