#include "tests/bench/closed_loop.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <optional>
#include <random>

#include "sluice/v1/rate_limiter.pb.h"

namespace sluice::bench {

namespace {

constexpr int kSampleEvery = 64;

}  // namespace

struct ClosedLoop::Call {
  grpc::GenericStub* stub = nullptr;
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer response;
  grpc::Status status;
};

ClosedLoop::ClosedLoop(const std::string& address, const Options& options) : options_(options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else all share one connection
  for (int i = 0; i < options.channels; ++i) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments)));
  }
}

ClosedLoop::~ClosedLoop() {
  queue_.Shutdown();
  void* tag;
  for (bool ok; queue_.Next(&tag, &ok);) {
  }
}

LoadResult ClosedLoop::Run(const std::vector<grpc::ByteBuffer>& requests, Duration duration) {
  std::minstd_rand random;
  const auto any_request = [&]() -> const grpc::ByteBuffer& {
    return requests[random() % requests.size()];
  };
  LoadResult result;
  std::vector<Call> calls(static_cast<std::size_t>(options_.in_flight));
  const SteadyTime start = SteadyNow();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].stub = stubs_[i % stubs_.size()].get();
    Send(calls[i], any_request());
  }
  void* tag;
  bool ok;
  for (std::size_t open = calls.size(); open > 0 && queue_.Next(&tag, &ok);) {
    Call& call = *static_cast<Call*>(tag);
    Count(call, result);
    if (SteadyNow() - start < duration) {
      Send(call, any_request());
    } else {
      --open;
    }
  }
  result.elapsed = SteadyNow() - start;
  return result;
}

void ClosedLoop::Send(Call& call, const grpc::ByteBuffer& request) {
  static const std::string kMethod = "/sluice.v1.RateLimiter/CheckLimit";
  call.reader.reset();
  call.context.emplace();
  call.reader = call.stub->PrepareUnaryCall(&*call.context, kMethod, request, &queue_);
  call.reader->StartCall();
  call.reader->Finish(&call.response, &call.status, &call);
}

void ClosedLoop::Count(Call& call, LoadResult& result) {
  ++result.calls;
  if (!call.status.ok()) {
    ++result.errors;
    return;
  }
  if (result.calls % kSampleEvery != 0) return;
  ++result.sampled;
  v1::CheckLimitResponse response;
  const bool parsed =
      grpc::SerializationTraits<v1::CheckLimitResponse>::Deserialize(&call.response, &response)
          .ok();
  result.not_by_store += !parsed || response.source() != v1::SOURCE_STORE;
}

}  // namespace sluice::bench
