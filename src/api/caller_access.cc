#include "api/caller_access.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "limiter/lease_name.h"
#include "match/counter_key.h"

namespace sluice {
namespace {

Counter& Refused(MetricsRegistry& metrics, const char* reason) {
  return metrics.CounterFor("sluice_callers_refused_total",
                            "Calls refused because of the setting `callers`: the caller is "
                            "unknown, or does not have the right.",
                            {{"reason", reason}});
}

bool HasDomain(const Caller& caller, std::string_view domain) {
  return std::ranges::any_of(caller.domains,
                             [&](const auto& it) { return it == domain || it == "*"; });
}

// Whether the counter belongs to a rule in one of the caller's domains.
bool HasKey(const Caller& caller, std::string_view key) {
  return std::ranges::any_of(caller.domains, [&](const auto& it) {
    if (it == "*") return true;
    std::string start = "sluice:{";
    AppendEscaped(it, start);
    start += '/';
    return key.starts_with(start);
  });
}

CallerRight RightFor(const CheckRequest& request) {
  if (request.TakesNothing()) return CallerRight::kPeek;
  switch (request.demand.mode) {
    case Mode::kPeek:
      return CallerRight::kPeek;
    case Mode::kCharge:
      return CallerRight::kCharge;
    case Mode::kRefund:
      return CallerRight::kRefund;
    default:
      return CallerRight::kConsume;
  }
}

// By CallerRight.
constexpr std::array<std::string_view, 6> kRightNames = {"consume", "peek",  "charge",
                                                         "refund",  "lease", "metrics"};

}  // namespace

CallerAccess::CallerAccess(std::vector<Caller> callers, MetricsRegistry& metrics)
    : callers_(std::move(callers)),
      unknown_(Refused(metrics, "unknown")),
      forbidden_(Refused(metrics, "forbidden")) {}

Result<std::unique_ptr<CallerAccess>> CallerAccess::Load(std::vector<Caller> callers,
                                                         MetricsRegistry& metrics) {
  std::unique_ptr<CallerAccess> access(new CallerAccess(std::move(callers), metrics));
  if (const auto taken = access->TakeIdentities(); !taken) return taken.error();
  std::vector<std::string> errors;
  Tokens tokens = access->ReadTokens({}, errors);
  if (!errors.empty()) return InvalidArgument(errors.front());
  const MutexLock lock(access->mutex_);
  access->Use(std::move(tokens));
  return access;
}

Result<void> CallerAccess::TakeIdentities() {
  for (const Caller& caller : callers_) {
    for (const std::string& identity : caller.identities) {
      const auto [place, added] = identities_.emplace(identity, &caller);
      if (added || place->second == &caller) continue;
      return InvalidArgument(fmt::format("callers.{}: {} also has the identity \"{}\"", caller.name,
                                         place->second->name, identity));
    }
  }
  return {};
}

Result<std::vector<SecretDigest>> CallerAccess::ReadTokenFile(const Caller& caller,
                                                              const Tokens& tokens,
                                                              const Tokens& previous) {
  const auto fail = [&caller](std::string_view why) {
    return InvalidArgument(fmt::format("callers.{}: token_file: {}", caller.name, why));
  };
  const auto secrets = ReadSecretsFile(caller.token_file);
  if (!secrets) return fail(secrets.error().message);
  std::vector<SecretDigest> read;
  for (const std::string& secret : *secrets) {
    read.push_back(DigestOfSecret(secret));
    for (const Tokens* const known : {&tokens, &previous}) {
      const auto found = known->find(read.back());
      if (found == known->end() || found->second == &caller) continue;
      return fail(fmt::format("the caller {} has the same token", found->second->name));
    }
  }
  return read;
}

CallerAccess::Tokens CallerAccess::ReadTokens(const Tokens& previous,
                                              std::vector<std::string>& errors) const {
  Tokens tokens;
  for (const Caller& caller : callers_) {
    if (caller.token_file.empty()) continue;
    const auto read = ReadTokenFile(caller, tokens, previous);
    if (read) {
      for (const SecretDigest& token : *read) tokens.emplace(token, &caller);
      continue;
    }
    errors.push_back(read.error().message);
    for (const auto& [token, owner] : previous) {
      if (owner == &caller) tokens.emplace(token, owner);
    }
  }
  return tokens;
}

void CallerAccess::Use(Tokens tokens) {
  all_tokens_.push_back(std::make_unique<const Tokens>(std::move(tokens)));
  tokens_.store(all_tokens_.back().get(), std::memory_order_release);
}

void CallerAccess::ReloadTokens() {
  const MutexLock lock(mutex_);
  std::vector<std::string> errors;
  Tokens tokens = ReadTokens(*all_tokens_.back(), errors);
  if (std::exchange(errors_, errors) != errors) {
    for (const std::string& error : errors) {
      spdlog::warn("{}; the previous tokens of this caller stay in use", error);
    }
  }
  if (tokens == *all_tokens_.back()) return;
  spdlog::info("callers: tokens have changed");
  Use(std::move(tokens));
}

const Caller* CallerAccess::Find(std::optional<std::string_view> authorization,
                                 std::span<const std::string> identities) const {
  for (const std::string& identity : identities) {
    const auto found = identities_.find(identity);
    if (found != identities_.end()) return found->second;
  }
  const auto token = BearerToken(authorization);
  if (!token) return nullptr;
  const Tokens& tokens = *tokens_.load(std::memory_order_acquire);
  const auto found = tokens.find(DigestOfSecret(*token));
  return found != tokens.end() ? found->second : nullptr;
}

Error CallerAccess::RefuseUnknown() const {
  unknown_.Increment();
  return {ErrorCode::kUnauthenticated,
          "needs `authorization: Bearer TOKEN` or a client certificate of a caller that the server "
          "knows (setting callers)"};
}

Result<const Caller*> CallerAccess::Identify(std::optional<std::string_view> authorization,
                                             std::span<const std::string> identities) const {
  if (const Caller* const caller = Find(authorization, identities)) return caller;
  return RefuseUnknown();
}

Error CallerAccess::Forbid(const Caller& caller, std::string_view what) const {
  forbidden_.Increment();
  return {ErrorCode::kPermissionDenied, fmt::format("{} (setting callers.{})", what, caller.name)};
}

Result<void> CallerAccess::MayAsk(const Caller& caller, std::string_view domain,
                                  CallerRight right) const {
  if (!HasDomain(caller, domain)) return Forbid(caller, "domain: the caller has no access to it");
  if (caller.rights.Has(right)) return {};
  return Forbid(caller, fmt::format("mode: the caller may not {}",
                                    kRightNames[static_cast<std::size_t>(right)]));
}

Result<void> CallerAccess::MayCheck(const Caller& caller, CheckRequest& request) const {
  const auto may = MayAsk(caller, request.domain, RightFor(request));
  if (!may) return may;
  request.may_lease = caller.rights.Has(CallerRight::kLease);
  return {};
}

Result<void> CallerAccess::MayUseLease(const Caller& caller, std::string_view lease_id) const {
  if (!caller.rights.Has(CallerRight::kLease)) {
    return Forbid(caller, "the caller may not use leases");
  }
  const auto name = LeaseName::Parse(lease_id);
  if (!name) return {};
  const bool has_all =
      std::ranges::all_of(name->counters, [&](const auto& it) { return HasKey(caller, it.key); });
  if (!has_all) return Forbid(caller, "lease_id: the caller has no access to the lease's domain");
  return {};
}

Result<void> CallerAccess::MayReadMetrics(const Caller& caller) const {
  if (caller.rights.Has(CallerRight::kMetrics)) return {};
  return Forbid(caller, "the caller may not read metrics");
}

}  // namespace sluice
