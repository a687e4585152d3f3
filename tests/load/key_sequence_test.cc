// The frequencies of keys match the distribution.
#include "load/key_sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace sluice::load {
namespace {

constexpr int kDraws = 400'000;

std::vector<int> Count(KeySequence sequence, std::uint32_t keys) {
  std::vector<int> counts(keys);
  for (int i = 0; i < kDraws; ++i) ++counts.at(sequence.Next());
  return counts;
}

// The expected count of each key. By definition, the share of key i is 1 / (i + 1)^exponent,
// divided by the sum of these terms for all keys.
std::vector<double> Expected(std::uint32_t keys, double exponent) {
  std::vector<double> expected(keys);
  for (std::uint32_t i = 0; i < keys; ++i) expected[i] = std::pow(i + 1, -exponent);
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  for (double& share : expected) share *= kDraws / sum;
  return expected;
}

// Pearson's chi-square divided by its mean: about 1 if the counts follow the distribution. Keys
// that are expected less than 10 times are combined into one cell.
double ChiSquare(const std::vector<int>& counts, const std::vector<double>& expected) {
  double sum = 0;
  double rare = 0;
  double rare_expected = 0;
  int cells = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] < 10) {
      rare += counts[i];
      rare_expected += expected[i];
      continue;
    }
    sum += std::pow(counts[i] - expected[i], 2) / expected[i];
    ++cells;
  }
  if (rare_expected >= 10) {
    sum += std::pow(rare - rare_expected, 2) / rare_expected;
    ++cells;
  }
  return sum / (cells - 1);
}

struct Law {
  std::uint32_t keys;
  double exponent;
};

class KeySequenceLaw : public ::testing::TestWithParam<Law> {};

TEST_P(KeySequenceLaw, FrequenciesMatchTheDefinition) {
  const auto [keys, exponent] = GetParam();
  const auto counts = Count(KeySequence(keys, exponent, 7), keys);
  const auto expected = Expected(keys, exponent);
  // With k + 1 cells, the standard deviation is sqrt(2 / k). Five standard deviations are allowed.
  // The seed is fixed, so the result is always the same.
  const int cells = static_cast<int>(
      std::count_if(expected.begin(), expected.end(), [](double count) { return count >= 10; }));
  EXPECT_NEAR(ChiSquare(counts, expected), 1, 5 * std::sqrt(2.0 / std::max(1, cells - 1)));
}

INSTANTIATE_TEST_SUITE_P(Laws, KeySequenceLaw,
                         ::testing::Values(Law{1000, 0}, Law{7, 0}, Law{2, 0.99}, Law{10, 0.5},
                                           Law{1000, 0.99}, Law{1000, 1}, Law{5000, 1.0000001},
                                           Law{1000, 1.5}, Law{100, 4}),
                         [](const auto& law) {
                           return "Keys" + std::to_string(law.param.keys) + "Exponent" +
                                  std::to_string(std::lround(law.param.exponent * 100)) + "Law" +
                                  std::to_string(law.index);
                         });

TEST(KeySequence, OneKey_IsAlwaysDrawn) {
  for (const double exponent : {0.0, 0.99}) {
    KeySequence sequence(1, exponent, 1);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(sequence.Next(), 0u);
  }
}

TEST(KeySequence, LargestNumberOfKeys_AllAreInRange) {
  for (const double exponent : {0.0, 0.01, 0.99, 10.0}) {
    KeySequence sequence(9'000'000, exponent, 1);
    for (int i = 0; i < 10'000; ++i) EXPECT_LT(sequence.Next(), 9'000'000u);
  }
}

TEST(KeySequence, Seed_DeterminesTheOrder) {
  KeySequence first(1'000'000, 0, 1);
  KeySequence again(1'000'000, 0, 1);
  KeySequence other(1'000'000, 0, 2);
  bool differs = false;
  for (int i = 0; i < 10; ++i) {
    const auto key = first.Next();
    EXPECT_EQ(key, again.Next());
    differs |= key != other.Next();
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace sluice::load
