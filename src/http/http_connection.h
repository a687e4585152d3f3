// One HTTP connection: reads requests one after the other and writes their answers in order.
//
//   idle ─▶ reading ─▶ answering ─▶ idle …    and from each, when either side has had enough:
//   ending (the rest of the answer goes out, what still comes is thrown away)
//
// Loop thread only. Owned by HttpConnections.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_message.h"
#include "http/http_responder.h"
#include "http/request_reader.h"
#include "net/io_threads.h"
#include "net/timer_wheel.h"
#include "net/transport.h"

namespace sluice {

class HttpConnections;

class HttpConnection final : public net::Protocol, public net::Disposable {
 public:
  // `owner` must outlive the connection.
  HttpConnection(HttpConnections& owner, net::IoThreads::Place place, net::TransportPtr transport);

  void Start();

  // Ends the connection at once. Nothing is called any more.
  void Close();

  // Where the owner keeps those that wait for a request with nothing left to send.
  std::optional<std::list<HttpConnection*>::iterator> idle_place;

 private:
  enum class State : std::uint8_t { kIdle, kReading, kAnswering, kEnding };

  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;
  void OnDrained() override { NoteAllSent(); }

  void ReadRequests();
  bool ReadRequest();
  void ReadLater();
  void Dispatch();
  void Deliver(HttpResponse response);
  void Refuse(int status);
  void Write(const HttpResponse& response, const ResponseForm& form);
  void BeginEnding();
  void NoteAllSent();
  void OnTime();
  void StartTimer(Duration time);
  std::size_t unsent() const { return output_.size() - taken_; }

  HttpConnections& owner_;
  const net::IoThreads::Place place_;
  const net::TransportPtr transport_;
  net::Timer timer_;
  State state_ = State::kIdle;
  bool input_ended_ = false;
  bool dispatching_ = false;
  ResponseForm form_;   // of the answer that is being made
  std::string input_;   // not read yet
  std::string output_;  // from taken_ on: not with the transport yet
  std::size_t taken_ = 0;
  std::unique_ptr<RequestReader> reader_;   // while reading
  std::shared_ptr<HttpExchange> exchange_;  // while a handler has the request
  std::optional<HttpResponse> delayed_;     // while its delay lasts
  std::shared_ptr<bool> read_later_;        // while reading is posted
};

}  // namespace sluice
