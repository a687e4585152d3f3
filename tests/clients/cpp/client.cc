// C++'s gRPC library as a client of sluiced. What is checked: ../run.py.
//
// Usage: client [what run.py passes]

#include <google/protobuf/descriptor.pb.h>
#include <grpc/health/v1/health.grpc.pb.h>
#include <grpc/reflection/v1alpha/reflection.grpc.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sluice/v1/admin.grpc.pb.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace sluice {
namespace {

using namespace std::chrono_literals;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;
using Strings = std::vector<std::string>;

constexpr std::chrono::seconds kTimeout(20);  // more than any call needs
constexpr std::uint64_t kMany = 100'000;      // the burst of /many
constexpr std::size_t kMiB = 1 << 20;

// --- what checks use ---------------------------------------------------------------------------

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void Expect(bool holds, const std::string& otherwise) {
  if (!holds) throw Failure(otherwise);
}

void ExpectCode(grpc::StatusCode code, const grpc::Status& status) {
  Expect(status.error_code() == code,
         fmt::format("code {} instead of {}: {}", static_cast<int>(status.error_code()),
                     static_cast<int>(code), status.error_message()));
}

void ExpectOk(const grpc::Status& status) { ExpectCode(grpc::StatusCode::OK, status); }

struct Context : grpc::ClientContext {
  explicit Context(std::chrono::milliseconds timeout = kTimeout) {
    set_deadline(std::chrono::system_clock::now() + timeout);
  }
};

v1::CheckLimitRequest Check(const std::string& user, const std::string& endpoint = "/many") {
  v1::CheckLimitRequest request;
  request.set_domain("clients");
  auto& attributes = *request.mutable_attributes();
  attributes["endpoint"] = endpoint;
  attributes["user"] = user;
  return request;
}

// `count` checks whose request_id is `name` and their number, from `first` on.
v1::CheckLimitsRequest Checks(int count, const std::string& user, const std::string& name = "",
                              int first = 0) {
  v1::CheckLimitsRequest frame;
  for (int i = first; i < first + count; ++i) {
    auto& check = *frame.add_checks() = Check(user);
    check.set_request_id(name + std::to_string(i));
  }
  return frame;
}

v1::CheckLimitsRequest LargeBatch(const std::string& user) {
  v1::CheckLimitsRequest frame = Checks(1000, user, "l");
  for (auto& check : *frame.mutable_checks()) {
    (*check.mutable_attributes())["note"] = std::string(800, 'n');
  }
  return frame;
}

using Answers = std::vector<v1::CheckLimitResponse>;

Strings Decisions(const Answers& answers) {
  Strings words;
  for (const auto& answer : answers) {
    words.push_back(v1::Decision_Name(answer.decision()).substr(sizeof("DECISION_") - 1));
  }
  return words;
}

void ExpectAllowedAllowedDenied(const Answers& answers) {
  const Strings words = Decisions(answers);
  Expect(words == Strings{"ALLOWED", "ALLOWED", "DENIED"}, fmt::format("{}", words));
}

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

  // There must be no other result before.
  void ExpectEnd(grpc::StatusCode code) {
    v1::CheckLimitsResponse frame;
    Expect(!calls_->Read(&frame), "a result instead of the end");
    ExpectCode(code, calls_->Finish());
  }

  // The status, after whatever results came before.
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

// Asks run.py to end the server; returns when it has been started again.
void Ask(std::string_view line) {
  std::cout << line << std::endl;
  std::string answer;
  std::getline(std::cin, answer);
  Expect(answer == "started", "run.py answers: " + answer);
}

// --- checks ------------------------------------------------------------------------------------

using Flags = std::map<std::string, std::string>;

class Client {
 public:
  explicit Client(Flags flags)
      : flags_(std::move(flags)),
        channel_(Connect(flags_.at("address"))),
        limiter_(channel_),
        health_(channel_) {}

  void Unary();
  void Batch();
  void StreamOfFrames();
  void Metadata();
  void ErrorMessage();
  void LargeBatchOfChecks();
  void TooLarge();
  void UnknownMethod();
  void Gzip();
  void Deadline();
  void Cancel();
  void Concurrent();
  void HealthCheck();
  void HealthWatch();
  void Reflection();
  void Keepalive();
  void Reconnect();
  void GracefulStop();

 private:
  using Channel = std::shared_ptr<grpc::Channel>;

  Channel Connect(const std::string& to, const grpc::ChannelArguments& arguments = {}) const;
  grpc::Status TryOne(const v1::CheckLimitRequest& request, v1::CheckLimitResponse& answer,
                      bool gzip = false);
  v1::CheckLimitResponse One(const v1::CheckLimitRequest& request);
  v1::CheckLimitsResponse Many(const v1::CheckLimitsRequest& request, bool gzip = false);
  void ExpectHealth(const std::string& service, HealthCheckResponse::ServingStatus wanted);
  void ExpectChannelWorks(const std::string& user);

  const Flags flags_;
  const Channel channel_;
  v1::RateLimiter::Stub limiter_;
  grpc::health::v1::Health::Stub health_;
};

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

void Client::HealthCheck() {
  HealthCheckRequest request;
  HealthCheckResponse answer;
  for (const std::string service : {"", "sluice.v1.RateLimiter"}) {
    Context context;
    request.set_service(service);
    ExpectOk(health_.Check(&context, request, &answer));
    Expect(answer.status() == HealthCheckResponse::SERVING, answer.ShortDebugString());
  }
  Context context;
  request.set_service("no.such");
  ExpectCode(grpc::StatusCode::NOT_FOUND, health_.Check(&context, request, &answer));
}

void Client::HealthWatch() {
  ExpectHealth("", HealthCheckResponse::SERVING);
  ExpectHealth("no.such", HealthCheckResponse::SERVICE_UNKNOWN);
}

void Client::ExpectHealth(const std::string& service, HealthCheckResponse::ServingStatus wanted) {
  Context context;
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse answer;
  const auto watch = health_.Watch(&context, request);
  Expect(watch->Read(&answer), "Watch has ended");
  Expect(answer.status() == wanted, answer.ShortDebugString());
  context.TryCancel();
  Expect(!watch->Read(&answer), "Watch goes on");
  ExpectCode(grpc::StatusCode::CANCELLED, watch->Finish());
}

void Client::Reflection() {
  Context context;
  grpc::reflection::v1alpha::ServerReflection::Stub stub(channel_);
  const auto calls = stub.ServerReflectionInfo(&context);
  const auto ask = [&](const ServerReflectionRequest& request) {
    ServerReflectionResponse answer;
    Expect(calls->Write(request) && calls->Read(&answer), "no answer");
    return answer;
  };
  ServerReflectionRequest request;
  request.set_list_services("*");
  std::set<std::string> names;
  const auto services = ask(request);
  for (const auto& service : services.list_services_response().service()) {
    names.insert(service.name());
  }
  for (const auto* name : {"sluice.v1.RateLimiter", "sluice.v1.Admin", "grpc.health.v1.Health"}) {
    Expect(names.count(name) > 0, fmt::format("{} is not among {}", name, names));
  }
  request.set_file_containing_symbol("sluice.v1.RateLimiter");
  Strings files;
  const auto found = ask(request);
  for (const auto& bytes : found.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    Expect(file.ParseFromString(bytes), "not a FileDescriptorProto");
    files.push_back(file.name());
  }
  Expect(std::count(files.begin(), files.end(), "sluice/v1/rate_limiter.proto") == 1,
         fmt::format("files: {}", files));
  request.set_file_containing_symbol("no.such.Symbol");
  const auto unknown = ask(request);
  Expect(unknown.error_response().error_code() == grpc::StatusCode::NOT_FOUND,
         unknown.ShortDebugString());
  calls->WritesDone();
  ExpectOk(calls->Finish());
}

void Client::Keepalive() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const Channel idle = Connect(flags_.at("address"), arguments);
  v1::RateLimiter::Stub busy(Connect(flags_.at("address"), arguments));
  Context context;
  v1::CheckLimitResponse answer;
  ExpectOk(v1::RateLimiter::Stub(idle).CheckLimit(&context, Check("keepalive"), &answer));
  Stream calls(busy, 60s);
  calls.Send(Checks(1, "keepalive"));
  calls.Results(1);
  Expect(idle->GetState(false) == GRPC_CHANNEL_READY, "the idle connection is not ready");
  const auto end = std::chrono::system_clock::now() + 35s;
  Expect(!idle->WaitForStateChange(GRPC_CHANNEL_READY, end), "the idle connection was lost");
  calls.Send(Checks(1, "keepalive"));
  calls.HalfClose();
  calls.Results(1);
  calls.ExpectEnd(grpc::StatusCode::OK);
}

void Client::Reconnect() {
  Stream calls(limiter_);
  calls.Send(Checks(1, "reconnect"));
  calls.Results(1);
  Ask("@kill");
  calls.ExpectEnd(grpc::StatusCode::UNAVAILABLE);
  ExpectChannelWorks("reconnect");
}

void Client::GracefulStop() {
  Context context;
  const auto watch = health_.Watch(&context, {});
  HealthCheckResponse health;
  Expect(watch->Read(&health), "Watch has ended");
  Expect(health.status() == HealthCheckResponse::SERVING, health.ShortDebugString());
  Stream calls(limiter_);
  calls.Send(Checks(1, "graceful"));
  calls.Results(1);
  Ask("@stop");
  Expect(watch->Read(&health), "Watch has ended");
  Expect(health.status() == HealthCheckResponse::NOT_SERVING, health.ShortDebugString());
  context.TryCancel();
  calls.ExpectEnd(grpc::StatusCode::UNAVAILABLE);
  ExpectChannelWorks("graceful");
}

// --- running them ------------------------------------------------------------------------------

constexpr std::pair<std::string_view, void (Client::*)()> kChecks[] = {
    {"unary", &Client::Unary},
    {"batch", &Client::Batch},
    {"stream", &Client::StreamOfFrames},
    {"metadata", &Client::Metadata},
    {"error_message", &Client::ErrorMessage},
    {"large_batch", &Client::LargeBatchOfChecks},
    {"too_large", &Client::TooLarge},
    {"unknown_method", &Client::UnknownMethod},
    {"gzip", &Client::Gzip},
    {"deadline", &Client::Deadline},
    {"cancel", &Client::Cancel},
    {"concurrent", &Client::Concurrent},
    {"health_check", &Client::HealthCheck},
    {"health_watch", &Client::HealthWatch},
    {"reflection", &Client::Reflection},
    {"keepalive", &Client::Keepalive},
    {"reconnect", &Client::Reconnect},
    {"graceful_stop", &Client::GracefulStop},
};

bool Passes(std::string_view name, const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    run();
  } catch (const Failure& failure) {
    std::cout << "FAIL " << name << ": " << failure.what() << std::endl;
    return false;
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::cout << fmt::format("ok   {} ({:.0f} ms)", name, took.count()) << std::endl;
  return true;
}

int Main(const Strings& arguments) {
  Flags flags;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    flags[arguments[i].substr(2)] = arguments[i + 1];
  }
  Client client(flags);
  const std::string only = "," + flags["only"] + ",";
  int runs = 0;
  int failures = 0;
  for (const auto& [name, check] : kChecks) {
    if (only != ",," && only.find(fmt::format(",{},", name)) == std::string::npos) continue;
    ++runs;
    if (!Passes(name, [&, run = check] { (client.*run)(); })) ++failures;
  }
  return runs > 0 && failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main({argv + 1, argv + argc}); }
