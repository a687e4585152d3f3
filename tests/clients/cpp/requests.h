// Helpers for the test cases of the C++ client: requests, expectations and commands to run.py.
//
// Not thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

namespace sluice {

using Strings = std::vector<std::string>;
using Answers = std::vector<v1::CheckLimitResponse>;

inline constexpr std::chrono::seconds kTimeout(20);  // longer than any call takes
inline constexpr std::uint64_t kMany = 100'000;      // the burst of /many
inline constexpr std::size_t kMiB = 1 << 20;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// If `holds` is false, throws a Failure with the message `otherwise`.
void Expect(bool holds, const std::string& otherwise);
void ExpectCode(grpc::StatusCode code, const grpc::Status& status);
void ExpectOk(const grpc::Status& status);
void ExpectAllowedAllowedDenied(const Answers& answers);

struct Context : grpc::ClientContext {
  explicit Context(std::chrono::milliseconds timeout = kTimeout) {
    set_deadline(std::chrono::system_clock::now() + timeout);
  }
};

v1::CheckLimitRequest Check(const std::string& user, const std::string& endpoint = "/many");

// A batch of `count` checks. The request_id of a check is `name` with a number, from `first` on.
v1::CheckLimitsRequest Checks(int count, const std::string& user, const std::string& name = "",
                              int first = 0);

v1::CheckLimitsRequest LargeBatch(const std::string& user);

// "ALLOWED", "DENIED", …
Strings Decisions(const Answers& answers);

// Sends a line to run.py, which stops the server. Returns when the server has been restarted.
void Ask(std::string_view line);

// A CheckLimitStream.
class Stream {
 public:
  explicit Stream(v1::RateLimiter::Stub& stub, std::chrono::milliseconds timeout = kTimeout,
                  bool gzip = false)
      : context_(timeout) {
    if (gzip) context_.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    calls_ = stub.CheckLimitStream(&context_);
  }

  void Send(const v1::CheckLimitsRequest& frame) {
    if (!calls_->Write(frame)) Fail("a frame was not sent");
  }

  void HalfClose() { calls_->WritesDone(); }

  Answers Results(std::size_t count) {
    Answers found;
    v1::CheckLimitsResponse frame;
    while (found.size() < count) {
      if (!calls_->Read(&frame)) Fail("results are missing");
      for (const auto& result : frame.results()) found.push_back(result.response());
    }
    Expect(found.size() == count, fmt::format("{} results instead of {}", found.size(), count));
    return found;
  }

  void Cancel() { context_.TryCancel(); }

  // Expects that the stream ends with `code`, without another result.
  void ExpectEnd(grpc::StatusCode code) {
    v1::CheckLimitsResponse frame;
    Expect(!calls_->Read(&frame), "a result instead of the end");
    ExpectCode(code, calls_->Finish());
  }

  // Discards all remaining results. Returns the status.
  grpc::Status End() {
    v1::CheckLimitsResponse frame;
    while (calls_->Read(&frame)) {
    }
    return calls_->Finish();
  }

 private:
  [[noreturn]] void Fail(std::string_view what) {
    const grpc::Status status = End();
    throw Failure(fmt::format("{}; the stream has ended with {} {}", what,
                              static_cast<int>(status.error_code()), status.error_message()));
  }

  Context context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::CheckLimitsRequest, v1::CheckLimitsResponse>> calls_;
};

}  // namespace sluice
