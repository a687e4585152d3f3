#include "tests/system/fleet.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/mutex.h"
#include "base/thread.h"

namespace sluice::test {
namespace {

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

bool IsFromStore(const Answer& answer) {
  const v1::Source source = answer.response.source();
  return answer.status.ok() && (source == v1::SOURCE_STORE || source == v1::SOURCE_DENY_CACHE);
}

}  // namespace

Time Answer::decided_at() const {
  const auto& at = response.decided_at();
  return Time(std::chrono::seconds(at.seconds()) + Duration(at.nanos() / 1000));
}

Fleet::Fleet(const Options& options, const std::string& redis_url) {
  SluiceServer::Options server{
      .rules = options.rules, .redis_url = redis_url, .flags = {}, .environment = {}};
  if (options.store_timeout == StoreTimeout::kLong) {
    server.environment.push_back("SLUICE_REDIS_TIMEOUT=900ms");
  }
  for (int i = 0; i < options.servers; ++i) {
    servers_.push_back(std::make_unique<SluiceServer>(server));
    stubs_.push_back(v1::RateLimiter::NewStub(
        grpc::CreateChannel(servers_.back()->grpc_address(), grpc::InsecureChannelCredentials())));
  }
}

Answer Fleet::Check(const v1::CheckLimitRequest& request, int server) {
  Answer answer;
  answer.server = server;
  grpc::ClientContext context;
  SetDeadline(context);
  answer.sent = SteadyNow();
  answer.status = stubs_[server]->CheckLimit(&context, request, &answer.response);
  answer.answered = SteadyNow();
  return answer;
}

grpc::Status Fleet::RenewLease(const std::string& lease_id, int server) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::RenewLeaseRequest request;
  request.set_lease_id(lease_id);
  v1::RenewLeaseResponse response;
  return stubs_[server]->RenewLease(&context, request, &response);
}

grpc::Status Fleet::ReleaseLease(const std::string& lease_id, int server) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ReleaseLeaseRequest request;
  request.set_lease_id(lease_id);
  v1::ReleaseLeaseResponse response;
  return stubs_[server]->ReleaseLease(&context, request, &response);
}

Answers Fleet::Run(const Load& load) {
  Mutex mutex;
  Answers all;
  std::atomic<int> next = 0;
  const SteadyTime start = SteadyNow();
  const auto call = [&](int server) {
    Answers mine;
    for (int i; load.go_on() && (i = next++) < load.checks;) {
      if (load.rate > 0) {
        const std::chrono::duration<double> due(i / load.rate);
        std::this_thread::sleep_until(start + std::chrono::duration_cast<Duration>(due));
      }
      mine.push_back(Check(load.request(i), server));
      mine.back().index = i;
    }
    MutexLock lock(mutex);
    std::move(mine.begin(), mine.end(), std::back_inserter(all));
  };
  std::vector<Thread> callers;
  for (int i = 0; i < load.callers; ++i) {
    callers.emplace_back("caller", [&call, server = i % size()] { call(server); });
  }
  for (Thread& caller : callers) caller.Join();
  std::sort(all.begin(), all.end(),
            [](const Answer& a, const Answer& b) { return a.answered < b.answered; });
  return all;
}

v1::CheckLimitRequest CheckOf(const std::string& domain, const std::string& endpoint,
                              const std::string& user) {
  v1::CheckLimitRequest request;
  request.set_domain(domain);
  (*request.mutable_attributes())["endpoint"] = endpoint;
  if (!user.empty()) (*request.mutable_attributes())["user"] = user;
  return request;
}

const v1::LimitStatus* StatusOf(const Answer& answer, const std::string& rule) {
  for (const v1::LimitStatus& status : answer.response.limits()) {
    if (status.rule() == rule) return &status;
  }
  return nullptr;
}

int CountAllowed(const Answers& answers) {
  return static_cast<int>(std::count_if(answers.begin(), answers.end(),
                                        [](const Answer& answer) { return answer.allowed(); }));
}

int CountFromStore(const Answers& answers) {
  return static_cast<int>(std::count_if(answers.begin(), answers.end(), IsFromStore));
}

std::string FirstNotFromStore(const Answers& answers) {
  const auto found = std::find_if_not(answers.begin(), answers.end(), IsFromStore);
  if (found == answers.end()) return "";
  return "server " + std::to_string(found->server) + ": " + found->status.error_message() +
         found->response.ShortDebugString();
}

}  // namespace sluice::test
