// A fleet under load: several sluiced that share one Redis or cluster, or one sluiced with the
// embedded store. The callers are spread evenly over the servers.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sluice/v1/rate_limiter.grpc.pb.h"
#include "tests/support/redis_server.h"
#include "tests/support/sluice_server.h"

namespace sluice::test {

// The answer to a check, with times on this process' clock.
struct Answer {
  int index = 0;  // the position of the check in its load
  int server = 0;
  grpc::Status status;
  v1::CheckLimitResponse response;
  SteadyTime sent;
  SteadyTime answered;

  bool allowed() const { return response.decision() == v1::DECISION_ALLOWED; }
  bool denied() const { return response.decision() == v1::DECISION_DENIED; }
  bool of_store() const { return response.source() == v1::SOURCE_STORE; }
  // On the store's clock.
  Time decided_at() const;
};

using Answers = std::vector<Answer>;

// A load from several threads. Each thread waits for its answer before it sends the next check.
struct Load {
  int callers = 64;
  int checks = std::numeric_limits<int>::max();  // the total
  // Checks a second, from all threads together. If an answer comes late, its thread sends the next
  // check late. 0: as fast as the answers come.
  double rate = 0;
  std::function<v1::CheckLimitRequest(int index)> request;  // thread-safe
  std::function<bool()> go_on = [] { return true; };        // thread-safe
};

// How long the servers wait for Redis. Tests of exact counts need kLong: on a busy machine, a short
// timeout would lead to answers from the fallback.
enum class StoreTimeout { kDefault, kLong };

// Thread-safe, except for construction and destruction. Each call has a deadline of one second.
class Fleet {
 public:
  struct Options {
    std::string rules;
    int servers = 3;
    StoreTimeout store_timeout = StoreTimeout::kLong;
  };

  // The servers use `redis`, which must outlive the fleet. nullptr: each has an embedded store.
  Fleet(const Options& options, RedisServer* redis)
      : Fleet(options, redis != nullptr ? redis->url() : "") {}
  // If the URL is empty, each server has an embedded store.
  Fleet(const Options& options, const std::string& redis_url);

  int size() const { return static_cast<int>(servers_.size()); }
  SluiceServer& server(int index) { return *servers_[index]; }

  // Sends a check to one server.
  Answer Check(const v1::CheckLimitRequest& request, int server = 0);

  // Renews a lease through any server.
  grpc::Status RenewLease(const std::string& lease_id, int server);
  // Releases a lease through any server.
  grpc::Status ReleaseLease(const std::string& lease_id, int server);

  // Returns when all callers have ended. The answers are in the order in which callers got them.
  Answers Run(const Load& load);

 private:
  std::vector<std::unique_ptr<SluiceServer>> servers_;
  std::vector<std::unique_ptr<v1::RateLimiter::Stub>> stubs_;
};

// A request for `endpoint`, with the attribute `user` unless it is empty.
v1::CheckLimitRequest CheckOf(const std::string& domain, const std::string& endpoint,
                              const std::string& user = "");

// The status of the rule's first limit in an answer, or nullptr if the answer has no limit of this
// rule.
const v1::LimitStatus* StatusOf(const Answer& answer, const std::string& rule);

int CountAllowed(const Answers& answers);

// The number of answers without an error that come from the store or the deny cache.
int CountFromStore(const Answers& answers);

// The first answer that CountFromStore does not count, as text for a test's message. Empty if
// CountFromStore counts all answers.
std::string FirstNotFromStore(const Answers& answers);

}  // namespace sluice::test
