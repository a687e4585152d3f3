// A shop whose functions and gRPC calls are limited. See clients/cpp/README.md.
//
//   shop pay ADDRESS USER...              pays once for each user
//   shop pay_async ADDRESS USER...        the same, without blocking
//   shop first ADDRESS                    checks once, with the default options
//   shop crowd ADDRESS THREADS CALLS      pays CALLS times per thread; prints how many are allowed
//   shop queue ADDRESS CALLS              makes CALLS calls in sequence; prints the time in ms
//   shop modes ADDRESS                    charges 5 units, gives 2 back; prints what is left
//   shop ask ADDRESS open|closed          checks once for each line of standard input
//   shop export ADDRESS                   holds a slot until standard input ends
//   shop reserve ADDRESS USER             works three times: takes estimated tokens, and settles
//                                         with those used
//   shop settle ADDRESS USER DRAIN SETTLE_FOR MAX
//                                         takes tokens, and settles with those used after a line of
//                                         standard input; DRAIN and SETTLE_FOR are in ms
//   shop outcomes ADDRESS                 works eight times, and reports how the work went
//   shop serve ADDRESS                    serves gRPC until standard input ends

#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "services.h"
#include "sluice/client.h"
#include "sluice/limited_service.h"
#include "sluice/load.h"

namespace {

using sluice::Attributes;
using Arguments = std::vector<std::string>;

// The deadline is long, because an example must work on a busy machine.
const sluice::Options kPatient = [] {
  sluice::Options options;
  options.deadline = std::chrono::minutes(1);
  return options;
}();

void Report(const std::string& user, const sluice::Decision& decision) {
  if (decision.allowed) {
    std::cout << user << " has paid\n";
  } else {
    const auto retry = decision.retry_after.value();
    std::cout << user << " is denied, retry in "
              << std::chrono::duration_cast<std::chrono::seconds>(retry).count() << " s\n";
  }
}

void Pay(const std::string& address, const Arguments& users) {
  sluice::Client client(address, kPatient);
  for (const std::string& user : users) {
    const sluice::Permit permit = client.Acquire("shop", {{"endpoint", "/pay"}, {"user", user}});
    Report(user, permit.decision());
  }
}

// The destructor of each client waits for the answer.
void PayAsync(const std::string& address, const Arguments& users) {
  for (const std::string& user : users) {
    sluice::Decision decided;
    sluice::Client(address, kPatient)
        .CheckAsync("shop", {{"endpoint", "/pay"}, {"user", user}},
                    [&decided](const sluice::Decision& decision) { decided = decision; });
    Report(user, decided);
  }
}

std::string Describe(const sluice::Decision& decision) {
  return std::string(decision.allowed ? "allowed" : "denied") +
         (decision.answered ? " by Sluice" : " without an answer");
}

void First(const std::string& address, const Arguments&) {
  sluice::Client client(address);
  std::cout << Describe(client.Check("shop", {{"endpoint", "/browse"}})) << '\n';
}

void Modes(const std::string& address, const Arguments&) {
  sluice::Client client(address, kPatient);
  auto request = sluice::Request("shop", {{"endpoint", "/tokens"}});
  request.set_mode(sluice::v1::MODE_CHARGE);
  request.set_cost(3);
  (*request.mutable_amounts())["tokens"] = 2;
  const sluice::Decision charged = client.Check(request);
  request.set_mode(sluice::v1::MODE_REFUND);
  request.set_cost(2);
  request.clear_amounts();
  *request.mutable_charged_at() = charged.response.decided_at();
  client.Check(request);
  request = sluice::Request("shop", {{"endpoint", "/tokens"}});
  request.set_mode(sluice::v1::MODE_PEEK);
  std::cout << client.Check(request).response.limits(0).remaining() << '\n';
}

void Crowd(const std::string& address, const Arguments& arguments) {
  sluice::Client client(address, kPatient);
  const int calls = std::stoi(arguments.at(1));
  std::atomic<int> allowed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < calls; ++call) {
        allowed += client.Check("shop", {{"endpoint", "/pay"}, {"user", "crowd"}}).allowed ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::cout << allowed << '\n';
}

void Queue(const std::string& address, const Arguments& arguments) {
  sluice::Options options = kPatient;
  options.max_wait = std::chrono::minutes(1);
  sluice::Client client(address, options);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
    if (!client.Acquire("shop", {{"endpoint", "/queue"}})) throw std::runtime_error("denied");
  }
  const auto elapsed = std::chrono::steady_clock::now() - start;
  std::cout << std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count() << '\n';
}

void Ask(const std::string& address, const Arguments& arguments) {
  sluice::Options options;
  options.deadline = std::chrono::seconds(1);
  if (arguments.at(0) == "closed") options.without_answer = sluice::Options::WithoutAnswer::kClosed;
  sluice::Client client(address, options);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Describe(client.Check("shop", {{"endpoint", "/browse"}})) << std::endl;
  }
}

void UntilInputEnds() {
  for (std::string line; std::getline(std::cin, line);) continue;
}

void Work(sluice::Client& client) {
  const sluice::Permit slot = client.Acquire("shop", {{"endpoint", "/export"}});
  if (!slot) {
    std::cout << "denied\n";
    return;
  }
  std::cout << "held" << std::endl;
  UntilInputEnds();
  throw std::runtime_error("the work fails");
}

void Export(const std::string& address, const Arguments&) {
  sluice::Client client(address, kPatient);
  try {
    Work(client);
  } catch (const std::runtime_error&) {
    std::cout << "released\n";
  }
}

sluice::v1::CheckLimitRequest Model(const std::string& user, int tokens) {
  auto request = sluice::Request("shop", {{"endpoint", "/model"}, {"user", user}});
  (*request.mutable_amounts())["tokens"] = tokens;
  return request;
}

// The model's answer needs more tokens than were taken.
void Longer(sluice::Client& client, const std::string& user) {
  sluice::Reservation reservation = client.Reserve(Model(user, 400));
  if (!reservation) throw std::invalid_argument("denied");
  reservation.Use({{"tokens", 400}});
  if (!reservation.Extend({{"tokens", 300}})) throw std::invalid_argument("denied");
  reservation.Use({{"tokens", 450}});
}

void Aborted(sluice::Client& client, const std::string& user) {
  sluice::Reservation reservation = client.Reserve(Model(user, 100));
  if (!reservation) throw std::invalid_argument("denied");
  reservation.Use({{"tokens", 50}});
  throw std::runtime_error("the work fails");
}

// Takes all tokens that are left, so a further part is denied.
void Stopped(sluice::Client& client, const std::string& user) {
  sluice::Reservation reservation = client.Reserve(Model(user, 500));
  if (!reservation) throw std::invalid_argument("denied");
  if (!reservation.Extend({{"tokens", 1}})) std::cout << "denied\n";
  reservation.Settle({{"tokens", 20}});
  if (reservation.Extend({{"tokens", 1}})) throw std::invalid_argument("extended after Settle");
}

void Reserve(const std::string& address, const Arguments& arguments) {
  sluice::Options options = kPatient;
  options.drain = options.deadline;
  for (const auto& prompt : {Longer, Aborted, Stopped}) {
    sluice::Client client(address, options);
    try {
      prompt(client, arguments.at(0));
    } catch (const std::runtime_error&) {
      continue;
    }
  }
}

void Settle(const std::string& address, const Arguments& arguments) {
  sluice::Options options = kPatient;
  options.lease_ttl = std::chrono::seconds(6);
  options.drain = std::chrono::milliseconds(std::stoi(arguments.at(1)));
  options.settle_for = std::chrono::milliseconds(std::stoi(arguments.at(2)));
  options.max_settlements = std::stoul(arguments.at(3));
  sluice::Client client(address, options);
  {
    sluice::Reservation reservation = client.Reserve(Model(arguments.at(0), 300));
    std::cout << (reservation.Extend({{"tokens", 100}}) ? "held" : "denied") << std::endl;
    std::string line;
    std::getline(std::cin, line);
    reservation.Use({{"tokens", 100}});
  }
  std::cout << "settled" << std::endl;
  std::cout << client.Close() << " lost" << std::endl;
}

void UseDatabase(sluice::Client& client, const std::function<void(sluice::Work&)>& report) {
  sluice::Permit permit = client.Acquire("shop", {{"endpoint", "/database"}});
  report(permit.work());
}

void Outcomes(const std::string& address, const Arguments&) {
  using sluice::Work;
  sluice::Options options = kPatient;
  sluice::Client client(address, options);
  UseDatabase(client, [](Work&) {});
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::DEADLINE_EXCEEDED}) {
    UseDatabase(client, [code](Work& work) { work.Report(grpc::Status(code, "")); });
  }
  try {
    UseDatabase(client, [](Work&) { throw std::runtime_error("the work fails"); });
  } catch (const std::runtime_error& failure) {
    std::cerr << failure.what() << '\n';
  }
  UseDatabase(client, [](Work& work) { work.Report(sluice::v1::HOLD_OUTCOME_OVERLOAD); });
  UseDatabase(client, [](Work& work) { work.ReportDuration(std::chrono::minutes(1)); });
  client.Reserve(sluice::Request("shop", {{"endpoint", "/database"}}))
      .Report(sluice::v1::HOLD_OUTCOME_IGNORE);
  options.overloaded = sluice::Above(1, 0);
  sluice::Client busy(address, options);
  UseDatabase(busy, [](Work&) {});
  std::cout << "done" << std::endl;
}

// The attribute `user`, from the call's metadata.
Attributes ByUser(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto user = metadata.find("user");
  if (user == metadata.end()) return {};
  return {{"user", std::string(user->second.data(), user->second.size())}};
}

// A server whose services are rate-limited, at a port that the system chooses.
template <class HealthService, class ReflectionService>
class Server {
 public:
  explicit Server(sluice::Client& client)
      : limited_health_(health_, grpc::health::v1::Health::service_full_name(), client, "shop",
                        ByUser),
        limited_reflection_(reflection_,
                            grpc::reflection::v1::ServerReflection::service_full_name(), client,
                            "shop", ByUser) {
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_)
                  .RegisterService(&limited_health_)
                  .RegisterService(&limited_reflection_)
                  .BuildAndStart();
  }

  int port() const { return port_; }

 private:
  HealthService health_;
  ReflectionService reflection_;
  sluice::LimitedService limited_health_;
  sluice::LimitedService limited_reflection_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

void Serve(const std::string& address, const Arguments&) {
  sluice::Options options = kPatient;
  options.without_answer = sluice::Options::WithoutAnswer::kClosed;
  sluice::Client client(address, options);
  const Server<Health, Reflection> synchronous(client);
  const Server<CallbackHealth, CallbackReflection> callback(client);
  std::cout << "grpc=" << synchronous.port() << " grpc_callback=" << callback.port()
            << " stream=/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" << std::endl;
  UntilInputEnds();
}

}  // namespace

int main(int count, char** words) {
  const std::map<std::string, void (*)(const std::string&, const Arguments&)> commands = {
      {"pay", Pay},         {"pay_async", PayAsync}, {"first", First},       {"crowd", Crowd},
      {"queue", Queue},     {"modes", Modes},        {"ask", Ask},           {"export", Export},
      {"reserve", Reserve}, {"settle", Settle},      {"outcomes", Outcomes}, {"serve", Serve}};
  const Arguments arguments(words + 1, words + count);
  if (count < 3 || commands.count(arguments[0]) == 0) {
    std::cerr << "usage: shop "
                 "pay|pay_async|first|crowd|queue|modes|ask|export|reserve|settle|outcomes|serve "
                 "ADDRESS [ARGUMENT...]\n";
    return 2;
  }
  commands.at(arguments[0])(arguments[1], {arguments.begin() + 2, arguments.end()});
}
