// An HTTP connection: reads requests one after another and writes their responses in order.
//
//   idle ─▶ reading ─▶ answering ─▶ idle …    and from each state, when either side closes:
//   ending (sends the rest of the output, discards input)
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_message.h"
#include "http/http_responder.h"
#include "http/http_state.h"
#include "http/request_reader.h"
#include "net/loop_connections.h"
#include "net/timer_queue.h"
#include "net/transport.h"

namespace sluice {

class HttpConnection final : public net::ServedConnection {
 public:
  // `shared` must outlive the connection. A connection without a place among the server's
  // connections answers only one request, and ends soon.
  HttpConnection(HttpLoopState& shared, net::TransportPtr transport, bool has_place);

  void Start() override;
  // If the connection is idle, its next request must begin soon. The next response is its last.
  void Drain() override;
  net::Occupant AsOccupant() const override;
  bool holds_bytes() const { return buffered_ > 0; }

 private:
  enum class State : std::uint8_t { kIdle, kReading, kAnswering, kEnding };

  // A response in the output, with a function to call if the response is lost.
  struct LosableAnswer {
    std::uint64_t end = 0;  // the position in the output at which the response ends
    std::function<void()> on_lost;
  };

  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;
  void OnDrained() override { NoteAllSent(); }
  void OnClose() override;

  void ReadRequests();
  bool ReadRequest();
  void ContinueLater();
  void Dispatch();
  void Handle();
  void Deliver(HttpResponse response);
  void Refuse(int status);
  void Write(const HttpResponse& response, const ResponseForm& form);
  void BeginEnding();
  void NoteAllSent();
  void CountBuffered(std::size_t in_flight = 0);
  void StartIdleTimer();
  void OnTime();
  void StartTimer(Duration time);
  std::size_t unsent() const { return output_.size() - taken_; }

  HttpLoopState& shared_;
  net::Timer timer_;
  State state_ = State::kIdle;
  SteadyTime since_;  // when the latest wait for the client (or the delay of a response) began
  bool input_ended_ = false;
  bool dispatching_ = false;
  bool draining_ = false;
  bool used_ = false;   // a request was answered
  ResponseForm form_;   // of the pending response
  std::string input_;   // received, not parsed yet
  std::string output_;  // the bytes from taken_ on are unsent
  std::size_t taken_ = 0;
  std::uint64_t all_taken_ = 0;             // bytes taken from the output since the start
  std::list<LosableAnswer> losable_;        // not sent yet
  std::size_t parsed_ = 0;                  // bytes of the request that reader_ has parsed
  std::size_t buffered_ = 0;                // the bytes last reported to `shared_`
  std::unique_ptr<RequestReader> reader_;   // of the request, until its handler is called
  std::shared_ptr<HttpExchange> exchange_;  // set while a handler processes the request
  std::optional<HttpResponse> delayed_;     // set during its delay
  std::shared_ptr<bool> later_;             // set while a task is posted
};

}  // namespace sluice
