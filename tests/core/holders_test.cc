// The index of holders gives the same answers as a list of them.
#include "core/algorithm/holders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tests/support/random.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

LeaseId Id(std::uint64_t number) {
  LeaseId id{};
  id[0] = static_cast<std::uint8_t>(number);
  return id;
}

using List = std::map<LeaseId, Holder>;

// The expiries of the slots still held after `now`, one for each slot, in ascending order.
std::vector<Time> ExpiriesAfter(const List& list, Time now) {
  std::vector<Time> expiries;
  for (const auto& [id, holder] : list) {
    if (holder.expires > now) expiries.insert(expiries.end(), holder.slots, holder.expires);
  }
  std::sort(expiries.begin(), expiries.end());
  return expiries;
}

void ExpectEqual(const Holders& holders, const List& list, Time now) {
  ASSERT_EQ(holders.size(), list.size());
  const auto expiries = ExpiriesAfter(list, now);
  ASSERT_EQ(holders.HeldAfter(now), static_cast<std::int64_t>(expiries.size()));
  for (std::size_t i = 0; i < expiries.size(); ++i) {
    ASSERT_EQ(holders.ExpiryAfter(now, static_cast<std::int64_t>(i) + 1), expiries[i]);
  }
  if (!expiries.empty()) {
    ASSERT_EQ(holders.LatestExpiry(), expiries.back());
  }
}

TEST(Holders, RandomChanges_AnswersAreTheSameAsThoseOfAList) {
  Random random(1);
  for (int run = 0; run < 50; ++run) {
    Holders holders;
    List list;
    for (int step = 0; step < 200; ++step) {
      const LeaseId id = Id(Below(random, 40));
      const Time now(seconds(Below(random, 20)));
      switch (Below(random, 4)) {
        case 0:
        case 1: {
          const Holder holder{Time(seconds(Below(random, 20))),
                              1 + static_cast<std::int64_t>(Below(random, 5))};
          holders.Set(id, holder);
          list[id] = holder;
          break;
        }
        case 2:
          holders.Remove(id);
          list.erase(id);
          break;
        default:
          holders.RemoveExpired(now, 1000);
          std::erase_if(list, [&](const auto& item) { return item.second.expires <= now; });
      }
      const auto listed = list.find(id);
      const Holder* const found = holders.Find(id);
      ASSERT_EQ(found != nullptr, listed != list.end());
      if (found != nullptr) {
        ASSERT_EQ(found->expires, listed->second.expires);
        ASSERT_EQ(found->slots, listed->second.slots);
      }
      ExpectEqual(holders, list, now);
    }
  }
}

TEST(Holders, RemoveExpired_RemovesUpToTheMaximum_EarliestFirst) {
  Holders holders;
  for (int i = 1; i <= 5; ++i) holders.Set(Id(i), {Time(seconds(i)), 2});
  EXPECT_EQ(holders.RemoveExpired(Time(seconds(4)), 5), 5);  // slots
  EXPECT_EQ(holders.size(), 3u);
  EXPECT_EQ(holders.Find(Id(2)), nullptr);
  EXPECT_EQ(holders.Find(Id(3))->slots, 1);
  EXPECT_EQ(holders.RemoveExpired(Time(seconds(4)), 5), 3);
  EXPECT_EQ(holders.size(), 1u);
  holders.Clear();
  EXPECT_EQ(holders.size(), 0u);
  EXPECT_EQ(holders.HeldAfter(Time()), 0);
}

}  // namespace
}  // namespace sluice::test
