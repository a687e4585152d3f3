#include "tests/clients/cpp/requests.h"

#include <iostream>

#include <fmt/ranges.h>

namespace sluice {

void Expect(bool holds, const std::string& otherwise) {
  if (!holds) throw Failure(otherwise);
}

void ExpectCode(grpc::StatusCode code, const grpc::Status& status) {
  Expect(status.error_code() == code,
         fmt::format("code {} instead of {}: {}", static_cast<int>(status.error_code()),
                     static_cast<int>(code), status.error_message()));
}

void ExpectOk(const grpc::Status& status) { ExpectCode(grpc::StatusCode::OK, status); }

v1::CheckLimitRequest Check(const std::string& user, const std::string& endpoint) {
  v1::CheckLimitRequest request;
  request.set_domain("clients");
  auto& attributes = *request.mutable_attributes();
  attributes["endpoint"] = endpoint;
  attributes["user"] = user;
  return request;
}

v1::CheckLimitsRequest Checks(int count, const std::string& user, const std::string& name,
                              int first) {
  v1::CheckLimitsRequest frame;
  for (int i = first; i < first + count; ++i) {
    auto& check = *frame.add_checks() = Check(user);
    check.set_request_id(name + std::to_string(i));
  }
  return frame;
}

v1::CheckLimitsRequest LargeBatch(const std::string& user) {
  v1::CheckLimitsRequest frame = Checks(1000, user, "l");
  for (auto& check : *frame.mutable_checks()) {
    (*check.mutable_attributes())["note"] = std::string(800, 'n');
  }
  return frame;
}

Strings Decisions(const Answers& answers) {
  Strings words;
  for (const auto& answer : answers) {
    words.push_back(v1::Decision_Name(answer.decision()).substr(sizeof("DECISION_") - 1));
  }
  return words;
}

void ExpectAllowedAllowedDenied(const Answers& answers) {
  const Strings words = Decisions(answers);
  Expect(words == Strings{"ALLOWED", "ALLOWED", "DENIED"}, fmt::format("{}", words));
}

void Ask(std::string_view line) {
  std::cout << line << std::endl;
  std::string answer;
  std::getline(std::cin, answer);
  Expect(answer == "started", "run.py answers: " + answer);
}

}  // namespace sluice
