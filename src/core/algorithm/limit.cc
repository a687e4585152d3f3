#include "core/algorithm/limit.h"

namespace sluice {

Algorithm AlgorithmOf(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kAlgorithm; }, limit);
}

std::string_view NameOf(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kName; }, limit);
}

std::string_view SelectedBy(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kSelectedBy; }, limit);
}

void Describe(Limit& limit, Parameters& parameters) {
  std::visit([&](auto& algorithm) { algorithm.Describe(parameters); }, limit);
}

bool Includes(const Limit& limit, const Limit& other) {
  return std::visit(
      [&](const auto& algorithm) {
        const auto* const same = std::get_if<std::decay_t<decltype(algorithm)>>(&other);
        return same != nullptr && algorithm.Includes(*same);
      },
      limit);
}

std::string CounterTag(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.Tag(); }, limit);
}

bool Supports(const Limit& limit, Mode mode) {
  return std::visit([&](const auto& algorithm) { return algorithm.Supports(mode); }, limit);
}

bool TakesLeases(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kTakesLeases; }, limit);
}

bool SettlesAsStored(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kSettlesAsStored; }, limit);
}

Duration LeaseTtl(const Limit& limit) { return std::get<Concurrency>(limit).ttl; }

const Adaptation* AdaptationOf(const Limit& limit) {
  const auto* const slots = std::get_if<Concurrency>(&limit);
  return slots != nullptr && slots->adapt.on ? &slots->adapt : nullptr;
}

Duration GrantLife(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.GrantLife(); }, limit);
}

bool RefundsInFull(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.RefundsInFull(); }, limit);
}

std::int64_t MostAtOnce(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.MostAtOnce(); }, limit);
}

bool DenialLasts(const Limit& limit, Mode mode) {
  return std::visit([&](const auto& algorithm) { return algorithm.DenialLasts(mode); }, limit);
}

bool MayCoalesce(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kMayCoalesce; }, limit);
}

bool MayCoalesceCharges(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kMayCoalesceCharges; }, limit);
}

Limit LimitFor(const Limit& limit, const Share& share) {
  return std::visit(
      [&](const auto& algorithm) {
        if constexpr (requires { algorithm.For(share); }) {
          return OneOf<Limit>(algorithm.For(share));
        } else {
          auto shared = algorithm;
          shared.limit = share.Of(algorithm.limit);
          return Limit(shared);
        }
      },
      limit);
}

Limit LimitForCharges(const Limit& limit, const Share& share) {
  return std::visit(
      [&](const auto& algorithm) {
        if constexpr (requires { algorithm.ForCharges(); }) {
          return LimitFor(algorithm.ForCharges(), share);
        } else {
          return LimitFor(algorithm, share);
        }
      },
      limit);
}

}  // namespace sluice
