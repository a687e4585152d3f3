// Helpers that start the generator and wait for its end.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "load/generator.h"

namespace sluice::load {

inline std::unique_ptr<Generator> Begin(const Plan& plan) {
  auto generator = Generator::Start(plan);
  if (!generator) ADD_FAILURE() << generator.error().message;
  return generator ? std::move(*generator) : nullptr;
}

// The statistics of a whole run.
inline LoadStats StatsOf(const Plan& plan) {
  const auto generator = Begin(plan);
  EXPECT_TRUE(generator->WaitUntil(SteadyNow() + std::chrono::seconds(30)));
  return generator->stats();
}

}  // namespace sluice::load
