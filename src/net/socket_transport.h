// A Transport over a TCP or unix socket.
#pragma once

#include <cstdint>
#include <string>

#include "net/loop.h"
#include "net/poller.h"
#include "net/socket.h"
#include "net/transport.h"

namespace sluice::net {

class SocketTransport final : public Transport, private EventHandler {
 public:
  // `loop` and its `poller` must outlive the transport.
  SocketTransport(Loop& loop, Poller& poller, Socket socket, FlushStage stage);
  ~SocketTransport() override { Close(); }

  void Start(Protocol& protocol) override;
  void RequestFlush() override { loop_.RequestFlush(*this); }
  void SetReading(bool reading) override;
  void FinishSending() override;
  void Close() override;
  std::size_t unsent() const override { return unsent_.size(); }
  const Peer& peer() const override { return peer_; }

 private:
  void OnEvents(std::uint32_t events) override;
  void Flush() override;
  void Read();
  std::size_t Send(std::string_view bytes);
  bool SendRest();
  void WatchFor(std::uint32_t events);
  void Lose(int error);

  Loop& loop_;
  Poller& poller_;
  Socket socket_;
  const Peer peer_;
  Protocol* protocol_ = nullptr;
  std::uint32_t events_ = 0;  // the epoll events that the loop watches
  bool reading_ = true;
  bool input_ended_ = false;
  bool finishing_ = false;
  std::string unsent_;  // taken from the protocol, not yet accepted by the kernel
};

}  // namespace sluice::net
