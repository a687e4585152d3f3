// Tests of single calls, batches and streams.
#include "tests/clients/cpp/client.h"

#include <grpcpp/generic/generic_stub.h>
#include <sluice/v1/admin.grpc.pb.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace sluice {

using namespace std::chrono_literals;

Client::Channel Client::Connect(const std::string& to,
                                const grpc::ChannelArguments& arguments) const {
  auto credentials = grpc::InsecureChannelCredentials();
  if (const auto authority = flags_.find("tls-ca"); authority != flags_.end()) {
    std::ifstream file(authority->second);
    grpc::SslCredentialsOptions options;
    options.pem_root_certs.assign(std::istreambuf_iterator<char>(file), {});
    credentials = grpc::SslCredentials(options);
  }
  return grpc::CreateCustomChannel(to, credentials, arguments);
}

grpc::Status Client::TryOne(const v1::CheckLimitRequest& request, v1::CheckLimitResponse& answer,
                            bool gzip) {
  Context context;
  if (gzip) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  return limiter_.CheckLimit(&context, request, &answer);
}

v1::CheckLimitResponse Client::One(const v1::CheckLimitRequest& request) {
  v1::CheckLimitResponse answer;
  ExpectOk(TryOne(request, answer));
  return answer;
}

v1::CheckLimitsResponse Client::Many(const v1::CheckLimitsRequest& request, bool gzip) {
  Context context;
  if (gzip) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::CheckLimitsResponse answer;
  ExpectOk(limiter_.CheckLimits(&context, request, &answer));
  Expect(answer.results_size() == request.checks_size(),
         fmt::format("{} results", answer.results_size()));
  return answer;
}

void Client::ExpectChannelWorks(const std::string& user) {
  Context context;
  context.set_wait_for_ready(true);
  v1::CheckLimitResponse answer;
  ExpectOk(limiter_.CheckLimit(&context, Check(user), &answer));
  Expect(answer.limits(0).remaining() == kMany - 1, answer.ShortDebugString());
}

void Client::Unary() {
  Answers answers;
  for (const std::string id : {"u0", "u1", "u2"}) {
    auto request = Check("unary", "/pay");
    request.set_request_id(id);
    answers.push_back(One(request));
    Expect(answers.back().request_id() == id, "request_id: " + answers.back().request_id());
  }
  ExpectAllowedAllowedDenied(answers);
  Expect(answers[0].limits(0).remaining() == 1, answers[0].ShortDebugString());
  const auto retry = answers[2].retry_after().seconds();
  Expect(retry > 3500 && retry <= 3600, fmt::format("retry_after {} s", retry));
}

void Client::Batch() {
  auto request = Checks(4, "batch", "b");
  for (auto& check : *request.mutable_checks()) {
    (*check.mutable_attributes())["endpoint"] = "/pay";
  }
  request.mutable_checks(1)->clear_domain();
  const auto response = Many(request);
  Expect(response.results(1).error().code() == grpc::StatusCode::INVALID_ARGUMENT,
         response.results(1).ShortDebugString());
  Answers answers;
  for (const int i : {0, 2, 3}) {
    answers.push_back(response.results(i).response());
    Expect(answers.back().request_id() == request.checks(i).request_id(),
           fmt::format("request_id {} at {}", answers.back().request_id(), i));
  }
  ExpectAllowedAllowedDenied(answers);
}

void Client::StreamOfFrames() {
  Stream calls(limiter_);
  calls.Send(Checks(20, "stream", "s"));
  Answers answers = calls.Results(20);
  for (int i = 20; i < 100; i += 20) calls.Send(Checks(20, "stream", "s", i));
  calls.HalfClose();
  for (auto& answer : calls.Results(80)) answers.push_back(answer);
  calls.ExpectEnd(grpc::StatusCode::OK);
  std::set<std::string> ids;
  std::uint64_t least = kMany;
  for (const auto& answer : answers) {
    ids.insert(answer.request_id());
    least = std::min<std::uint64_t>(least, answer.limits(0).remaining());
  }
  Expect(ids.size() == 100, fmt::format("{} different request_ids", ids.size()));
  Expect(least == kMany - 100, fmt::format("remaining {}", least));
}

void Client::Metadata() {
  v1::Admin::Stub admin(channel_);
  v1::ListRulesResponse answer;
  Context without;
  ExpectCode(grpc::StatusCode::UNAUTHENTICATED, admin.ListRules(&without, {}, &answer));
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  Context context;
  context.AddMetadata("authorization", "Bearer " + flags_.at("token"));
  context.AddMetadata("x-long", std::string(4096, 'v'));
  context.AddMetadata("x-all-bytes-bin", all);
  ExpectOk(admin.ListRules(&context, {}, &answer));
  Strings names;
  for (const auto& rule : answer.rules()) names.push_back(rule.rule());
  Expect(names == Strings{"pay", "crowd", "many"}, fmt::format("rules: {}", names));
}

void Client::ErrorMessage() {
  auto request = Check("error");
  (*request.mutable_attributes())["größe"] = std::string(8193, 'v');
  v1::CheckLimitResponse answer;
  const grpc::Status status = TryOne(request, answer);
  ExpectCode(grpc::StatusCode::INVALID_ARGUMENT, status);
  Expect(status.error_message().find("größe") != std::string::npos, status.error_message());
}

void Client::LargeBatchOfChecks() {
  const auto answer = Many(LargeBatch("large"));
  for (int i = 0; i < answer.results_size(); ++i) {
    const std::string& id = answer.results(i).response().request_id();
    Expect(id == fmt::format("l{}", i), fmt::format("request_id {} at {}", id, i));
  }
  const auto left = answer.results(999).response().limits(0).remaining();
  Expect(left == kMany - 1000, fmt::format("remaining {}", left));
}

void Client::TooLarge() {
  v1::CheckLimitResponse answer;
  ExpectCode(grpc::StatusCode::RESOURCE_EXHAUSTED,
             TryOne(Check(std::string(5 * kMiB, 'u')), answer));
  One(Check("after"));
}

void Client::UnknownMethod() {
  grpc::TemplatedGenericStub<v1::CheckLimitRequest, v1::CheckLimitResponse> stub(channel_);
  for (const std::string path :
       {"/sluice.v1.RateLimiter/NoSuchMethod", "/no.such.Service/CheckLimit"}) {
    Context context;
    const auto request = Check("unknown");
    v1::CheckLimitResponse answer;
    std::promise<grpc::Status> end;
    stub.UnaryCall(&context, path, {}, &request, &answer,
                   [&](grpc::Status status) { end.set_value(std::move(status)); });
    ExpectCode(grpc::StatusCode::UNIMPLEMENTED, end.get_future().get());
  }
}

void Client::Gzip() {
  Many(LargeBatch("gzip"), true);
  Stream calls(limiter_, kTimeout, true);
  for (int i = 0; i < 2; ++i) {
    calls.Send(Checks(100, "gzip"));
    calls.Results(100);
  }
  calls.HalfClose();
  calls.ExpectEnd(grpc::StatusCode::OK);
  v1::CheckLimitResponse answer;
  ExpectCode(grpc::StatusCode::RESOURCE_EXHAUSTED,
             TryOne(Check(std::string(5 * kMiB, 'u')), answer, true));
}

void Client::Deadline() {
  One(Check("deadline"));
  v1::RateLimiter::Stub silent(Connect(flags_.at("silent")));
  const auto begin = std::chrono::steady_clock::now();
  Context context(500ms);
  v1::CheckLimitResponse answer;
  ExpectCode(grpc::StatusCode::DEADLINE_EXCEEDED,
             silent.CheckLimit(&context, Check("deadline"), &answer));
  Expect(std::chrono::steady_clock::now() - begin < 5s, "late");
  Stream calls(limiter_, 500ms);
  calls.Send(Checks(1, "deadline"));
  calls.Results(1);
  calls.ExpectEnd(grpc::StatusCode::DEADLINE_EXCEEDED);
}

void Client::Cancel() {
  for (int i = 0; i < 10; ++i) {
    Stream calls(limiter_);
    calls.Send(Checks(1, "cancel"));
    calls.Results(1);
    calls.Send(Checks(1000, "cancel"));
    calls.Cancel();
    ExpectCode(grpc::StatusCode::CANCELLED, calls.End());
  }
  One(Check("cancel"));
}

void Client::Concurrent() {
  std::vector<std::future<v1::CheckLimitResponse>> calls(64);
  for (auto& call : calls) {
    call = std::async(std::launch::async, [this] { return One(Check("concurrent", "/crowd")); });
  }
  Answers answers;
  for (auto& call : calls) answers.push_back(call.get());
  const Strings words = Decisions(answers);
  const auto allowed = std::count(words.begin(), words.end(), "ALLOWED");
  const auto denied = std::count(words.begin(), words.end(), "DENIED");
  Expect(allowed == 40 && denied == 24, fmt::format("{} allowed, {} denied", allowed, denied));

  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 64; ++i) {
    streams.push_back(std::make_unique<Stream>(limiter_));
    streams.back()->Send(Checks(1, "concurrent"));
  }
  for (const auto& stream : streams) stream->Results(1);
  for (const auto& stream : streams) {
    stream->HalfClose();
    stream->ExpectEnd(grpc::StatusCode::OK);
  }
}

}  // namespace sluice
