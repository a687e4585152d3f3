#include "envoy/xds/xds_client.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "envoy/service/discovery/v3/ads.grpc.pb.h"

namespace sluice::envoy {
namespace {

using ::envoy::service::discovery::v3::AggregatedDiscoveryService;
using ::envoy::service::discovery::v3::DiscoveryRequest;
using ::envoy::service::discovery::v3::DiscoveryResponse;

// The timeout of a connection attempt.
constexpr int kConnectMilliseconds = 5'000;

// Control planes commonly allow a PING every five minutes.
constexpr int kKeepaliveMilliseconds = 300'000;
constexpr int kKeepaliveTimeoutMilliseconds = 20'000;

Result<std::string> ReadPem(const std::string& path) {
  if (path.empty() || path == "system") return std::string();
  return ReadFile(path);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const XdsSettings& settings) {
  if (settings.ca.empty()) return grpc::InsecureChannelCredentials();
  auto ca = ReadPem(settings.ca);
  auto certificate = ReadPem(settings.certificate);
  auto key = ReadPem(settings.key);
  for (const auto* const text : {&ca, &certificate, &key}) {
    if (!*text) return text->error();
  }
  return grpc::SslCredentials({.pem_root_certs = std::move(*ca),
                               .pem_private_key = std::move(*key),
                               .pem_cert_chain = std::move(*certificate)});
}

// Each attempt has a new channel, so that certificates are read again, and gRPC's own pauses
// between connections do not apply.
std::shared_ptr<grpc::Channel> ChannelTo(const XdsSettings& settings,
                                         std::shared_ptr<grpc::ChannelCredentials> credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(settings.max_message));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMilliseconds);
  if (!settings.server_name.empty()) arguments.SetSslTargetNameOverride(settings.server_name);
  return grpc::CreateCustomChannel(settings.server, std::move(credentials), arguments);
}

}  // namespace

// One stream. Only the client's thread reads from `stream`; any thread may call Write and Finish.
struct XdsClient::Call {
  grpc::ClientContext context;
  std::unique_ptr<AggregatedDiscoveryService::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<DiscoveryRequest, DiscoveryResponse>> stream;

  void Write(const DiscoveryRequest& request) SLUICE_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    if (!finished) stream->Write(request);
  }
  grpc::Status Finish() SLUICE_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    finished = true;
    return stream->Finish();
  }

 private:
  Mutex mutex;  // one write at a time
  bool finished SLUICE_GUARDED_BY(mutex) = false;
};

// Outlives the client if a set is still being compiled.
struct XdsClient::State {
  mutable Mutex mutex;
  CondVar stopped;
  bool stopping SLUICE_GUARDED_BY(mutex) = false;
  std::shared_ptr<Call> call SLUICE_GUARDED_BY(mutex);  // null: not connected
  std::string nonce SLUICE_GUARDED_BY(mutex);           // of the last response
  XdsStatus status SLUICE_GUARDED_BY(mutex);
  // These describe the last set. If a control plane sends a refused set again, the set is refused
  // again without being compiled.
  std::string last_fingerprint SLUICE_GUARDED_BY(mutex);
  std::vector<std::string> last_mistakes SLUICE_GUARDED_BY(mutex);  // empty: the set was accepted

  // Accepts the set in the response with this nonce, or refuses it because of its mistakes.
  void Answer(const std::string& its_nonce, const ResourceSetId& set,
              const std::vector<std::string>& mistakes) SLUICE_EXCLUDES(mutex) {
    DiscoveryRequest request;
    request.set_type_url(kRulesType);
    request.set_response_nonce(its_nonce);
    std::shared_ptr<Call> to;
    {
      const MutexLock lock(mutex);
      Note(set, mistakes);
      request.set_version_info(status.version);
      if (its_nonce == nonce) to = call;
    }
    if (!to) return;  // the stream has broken, or a newer response has come
    if (!mistakes.empty()) {
      request.mutable_error_detail()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
      request.mutable_error_detail()->set_message(fmt::to_string(fmt::join(mistakes, "\n")));
    }
    to->Write(request);
  }

 private:
  void Note(const ResourceSetId& set, const std::vector<std::string>& mistakes)
      SLUICE_REQUIRES(mutex) {
    last_fingerprint = set.fingerprint;
    last_mistakes = mistakes;
    if (!mistakes.empty()) {
      ++status.refused;
      status.last_refusal = fmt::format("version {}: {}", set.version, mistakes.front());
      if (mistakes.size() > 1) {
        status.last_refusal += fmt::format(" (and {} more)", mistakes.size() - 1);
      }
      return;
    }
    ++status.accepted;
    status.version = set.version;
    status.accepted_at = SteadyNow();
    status.resources = set.resources;
    status.last_refusal.clear();
  }
};

XdsClient::XdsClient(XdsSettings settings, Take take)
    : settings_(std::move(settings)), take_(std::move(take)), state_(std::make_shared<State>()) {
  thread_ = Thread("xds", [this] { Run(); });
}

XdsClient::~XdsClient() {
  std::shared_ptr<Call> call;
  {
    const MutexLock lock(state_->mutex);
    state_->stopping = true;
    call = state_->call;
    state_->stopped.NotifyAll();
  }
  if (call) call->context.TryCancel();
  thread_.Join();
}

XdsStatus XdsClient::status() const {
  const MutexLock lock(state_->mutex);
  return state_->status;
}

void XdsClient::Run() {
  LowerPriority();  // checks matter more than an early start of new rules
  std::minstd_rand random(std::random_device{}());
  Duration pause = settings_.first_pause;
  for (;;) {
    if (const auto call = Connect()) {
      ReadUntilBroken(call);
      const MutexLock lock(state_->mutex);
      if (state_->status.connected) pause = settings_.first_pause;
      state_->status.connected = false;
      state_->call = nullptr;
    }
    const double jitter = std::uniform_real_distribution(0.8, 1.2)(random);
    const MutexLock lock(state_->mutex);
    const bool stopping = state_->stopped.WaitUntil(
        state_->mutex, SteadyNow() + std::chrono::duration_cast<Duration>(pause * jitter),
        [this]() SLUICE_REQUIRES(state_->mutex) { return state_->stopping; });
    if (stopping) return;
    pause = std::min(pause * 2, settings_.longest_pause);
  }
}

// Opens a stream and requests all rules. Null if the TLS files cannot be read, or if the client is
// being destroyed.
std::shared_ptr<XdsClient::Call> XdsClient::Connect() {
  auto credentials = CredentialsOf(settings_);
  if (!credentials) {
    spdlog::error("xds: {}", credentials.error().message);
    return nullptr;
  }
  auto call = std::make_shared<Call>();
  for (const auto& [name, value] : settings_.headers) call->context.AddMetadata(name, value);
  call->stub = AggregatedDiscoveryService::NewStub(ChannelTo(settings_, std::move(*credentials)));

  DiscoveryRequest request;
  request.set_type_url(kRulesType);
  request.mutable_node()->set_id(settings_.node_id);
  request.mutable_node()->set_cluster(settings_.node_id);
  auto& metadata = *request.mutable_node()->mutable_metadata()->mutable_fields();
  for (const auto& [name, value] : settings_.node_metadata) metadata[name].set_string_value(value);
  {
    const MutexLock lock(state_->mutex);
    if (state_->stopping) return nullptr;
    state_->call = call;
    state_->nonce.clear();
    request.set_version_info(state_->status.version);
  }
  call->stream = call->stub->StreamAggregatedResources(&call->context);
  call->Write(request);
  return call;
}

void XdsClient::ReadUntilBroken(const std::shared_ptr<Call>& call) {
  DiscoveryResponse response;
  while (call->stream->Read(&response)) OnResponse(response);
  const grpc::Status ended = call->Finish();
  const MutexLock lock(state_->mutex);
  if (state_->stopping) return;
  // While the control plane does not answer, each attempt ends with the same cause, so the warning
  // is logged only once.
  const bool is_known = !state_->status.connected && ended.error_message() == last_cause_;
  last_cause_ = ended.error_message();
  spdlog::log(is_known ? spdlog::level::debug : spdlog::level::warn,
              "xds: the stream from {} has ended ({}); the rules stay in force", settings_.server,
              last_cause_.empty() ? "without a cause" : last_cause_);
}

void XdsClient::OnResponse(const DiscoveryResponse& response) {
  RuleResources set{.id = IdOf(response), .documents = {}};
  std::vector<std::string> mistakes;
  {
    const MutexLock lock(state_->mutex);
    if (!state_->status.connected) spdlog::info("xds: connected to {}", settings_.server);
    state_->status.connected = true;
    state_->nonce = response.nonce();
    if (set.id.fingerprint == state_->last_fingerprint) mistakes = state_->last_mistakes;
  }
  if (mistakes.empty()) set.documents = ReadResources(response, mistakes);
  if (!mistakes.empty()) return state_->Answer(response.nonce(), set.id, mistakes);
  const Done done = [state = state_, nonce = response.nonce(), id = set.id](const auto& found) {
    state->Answer(nonce, id, found);
  };
  take_(std::move(set), done);
}

}  // namespace sluice::envoy
