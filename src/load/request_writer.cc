#include "load/request_writer.h"

#include <string_view>

#include "base/text.h"
#include "client/grpc_call.h"

namespace sluice::load {
namespace {

// The number of digits of a key. Request ids have as many digits.
constexpr std::size_t kDigits = 7;
static_assert(kMaxInFlight <= kMaxKeys);

void AppendVarint(std::string& out, std::size_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Appends a field of wire type 2.
void AppendField(std::string& out, int number, std::string_view bytes) {
  out += static_cast<char>(number << 3 | 2);
  AppendVarint(out, bytes.size());
  out += bytes;
}

void WriteDigits(std::uint32_t number, char* out) {
  for (std::size_t i = kDigits; i-- > 0; number /= 10)
    out[i] = static_cast<char>('0' + number % 10);
}

// The map entry of an attribute. Ends with the digits of the attribute's value.
std::string Attribute(std::string_view name) {
  std::string entry;
  AppendField(entry, 1, name);
  AppendField(entry, 2, std::string(kDigits, '0'));
  return entry;
}

}  // namespace

RequestWriter::RequestWriter(const Plan& plan, std::uint64_t seed)
    : keys_(plan.keys, plan.zipf_exponent, seed), checks_(plan.checks) {
  constexpr int kAttributes = 2;  // fields of CheckLimitRequest
  constexpr int kRequestId = 6;
  std::string check = plan.request;
  const bool has_key = !plan.key_name.empty();
  if (has_key) AppendField(check, kAttributes, Attribute(plan.key_name));
  std::size_t key_from_end = kDigits;
  if (plan.rpc == Rpc::kStream) {
    AppendField(check, kRequestId, std::string(kDigits, '0'));
    key_from_end += kDigits + 2;
  }
  if (plan.rpc == Rpc::kUnary) {
    message_ = GrpcFrame(check);
  } else {
    std::string checks;
    for (std::uint32_t i = 0; i < checks_; ++i) AppendField(checks, 1, check);
    message_ = GrpcFrame(checks);
  }
  constexpr std::size_t kFrameHeader = 5;
  check_size_ = (message_.size() - kFrameHeader) / checks_;
  const std::size_t end_of_first = kFrameHeader + check_size_;
  if (has_key) first_key_ = end_of_first - key_from_end;
  if (plan.rpc == Rpc::kStream) first_id_ = end_of_first - kDigits;
}

void RequestWriter::Append(std::uint32_t id, std::string& out) {
  const std::size_t begin = out.size();
  out += message_;
  char* check = out.data() + begin;
  for (std::uint32_t i = 0; i < checks_; ++i, check += check_size_) {
    if (first_key_ > 0) WriteDigits(kFirstKey + keys_.Next(), check + first_key_);
    if (first_id_ > 0) WriteDigits(kFirstKey + id, check + first_id_);
  }
}

const char* PathOf(Rpc rpc) {
  return rpc == Rpc::kUnary   ? "/sluice.v1.RateLimiter/CheckLimit"
         : rpc == Rpc::kBatch ? "/sluice.v1.RateLimiter/CheckLimits"
                              : "/sluice.v1.RateLimiter/CheckLimitStream";
}

std::uint32_t ParseRequestId(std::string_view request_id) {
  const auto number = ParseNumber<std::uint32_t>(request_id);
  if (request_id.size() != kDigits || !number) return kMaxInFlight;
  return std::min(*number - kFirstKey, kMaxInFlight);
}

}  // namespace sluice::load
