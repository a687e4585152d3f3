// Tests our server and gRPC's with the table of door_table.h.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <tuple>

#include "rpc/http2/server.h"
#include "tests/rpc/door_table.h"
#include "tests/rpc/grpc_oracle.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

std::vector<DoorRow> AllRows() {
  std::vector<DoorRow> all;
  for (const auto& rows : {HeaderRows(), TimeoutRows(), MessageRows(), StreamRows(), FrameRows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

enum class Side { kOurs, kGrpcs };

class DoorTest : public testing::TestWithParam<std::tuple<Side, DoorRow>> {
 protected:
  DoorTest() { threads_.Start(); }
  ~DoorTest() override {
    server_.reset();
    oracle_.reset();
    threads_.Stop();
  }

  static bool IsGrpcs() { return std::get<0>(GetParam()) == Side::kGrpcs; }
  static const DoorRow& row() { return std::get<1>(GetParam()); }
  static std::string Expected() {
    if (!row().differs) return row().expected;
    return IsGrpcs() ? row().differs->grpc : row().differs->ours;
  }

  static int Cancelled() {
    return IsGrpcs() ? row().grpc_canceled.value_or(row().canceled) : row().canceled;
  }

  Address Start() {
    if (IsGrpcs()) {
      oracle_ = std::make_unique<GrpcOracle>(threads_, EchoMethods(seen_), kMaxMessage);
      return oracle_->address();
    }
    const Address address{.host = "127.0.0.1", .port = 0, .unix_path = ""};
    server_ = rpc::http2::Server::Start(threads_, EchoMethods(seen_),
                                        {.address = address,
                                         .max_message_bytes = kMaxMessage,
                                         .metadata = {"x-one", "x-two", "x-bin", "user-agent"}})
                  .value();
    return server_->address();
  }

  // The outcome, in the form of DoorRow::expected.
  static std::string Outcome(RawConnection& connection, const std::string& expected) {
    std::istringstream texts(expected.substr(0, expected.find(';')));
    std::vector<std::string> streams;
    for (int i = 0; i < row().streams; ++i) {
      std::string text;
      std::getline(texts, text, '|');
      if (text.find("open") == std::string::npos) connection.AwaitEnd(2 * i + 1);
    }
    const std::string health = connection.Health();
    for (int i = 0; i < row().streams; ++i) streams.push_back(connection.stream(2 * i + 1).Text());
    std::string outcome = fmt::format("{}", fmt::join(streams, " | "));
    if (outcome.empty()) return health;
    if (health != "alive") outcome += "; " + health;
    return outcome;
  }

  // gRPC's own server closes the connection right after GOAWAY. If it has not read all bytes by
  // then, TCP resets the connection, and the GOAWAY may be lost. So "closed" is accepted too.
  static bool Matches(std::string expected, const std::string& outcome) {
    if (::fnmatch(expected.c_str(), outcome.c_str(), 0) == 0) return true;
    const auto goaway = expected.find("goaway ");
    if (!IsGrpcs() || goaway == std::string::npos) return false;
    return ::fnmatch(expected.replace(goaway, std::string::npos, "closed").c_str(), outcome.c_str(),
                     0) == 0;
  }

  Seen seen_;
  net::IoThreads threads_{1};
  std::unique_ptr<rpc::http2::Server> server_;
  std::unique_ptr<GrpcOracle> oracle_;
};

TEST_P(DoorTest, Request_InTheTable_GetsTheExpectedAnswer) {
  RawConnection connection(Start());
  row().run(connection, seen_);
  const std::string expected = Expected();
  const std::string outcome = Outcome(connection, expected);
  EXPECT_TRUE(Matches(expected, outcome)) << "outcome:  " << outcome << "\nexpected: " << expected;
  if (row().message) {
    EXPECT_EQ(connection.stream(1).Field("grpc-message"), *row().message);
  }
  const int canceled = Cancelled();
  if (canceled == DoorRow::kAnyNumber) return;
  EXPECT_TRUE(WaitUntil(std::chrono::seconds(30), [&] { return seen_.canceled >= canceled; }));
  EXPECT_EQ(seen_.canceled, canceled);
}

INSTANTIATE_TEST_SUITE_P(Door, DoorTest,
                         testing::Combine(testing::Values(Side::kOurs, Side::kGrpcs),
                                          testing::ValuesIn(AllRows())),
                         [](const auto& parameter) {
                           const bool grpcs = std::get<0>(parameter.param) == Side::kGrpcs;
                           return std::get<1>(parameter.param).name + (grpcs ? "_Grpc" : "_Ours");
                         });

TEST(DoorTable, Rows_NamesAreDistinctAndDifferencesHaveReasons) {
  std::set<std::string> names;
  for (const DoorRow& row : AllRows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    if (!row.differs) continue;
    EXPECT_GT(row.differs->reason.size(), 20U) << row.name << ": say why";
    EXPECT_NE(row.differs->ours, row.differs->grpc) << row.name << ": no difference";
  }
  EXPECT_GE(names.size(), 80U);
}

}  // namespace
}  // namespace sluice::test
