#include "replay/line_parser.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "replay/nginx_line.h"

namespace sluice::replay {
namespace {

using Values = std::vector<std::string_view>;

// Returns the index in `fields` of each wanted value's field. If the log lacks the field, the index
// is fields.size(). Fails if the log lacks a field that must exist.
template <typename Fields>
Result<std::vector<std::size_t>> PositionsOf(const std::vector<Wanted>& wanted,
                                             const Fields& fields, const std::string& log) {
  std::vector<std::size_t> positions;
  for (const Wanted& it : wanted) {
    const auto found =
        it.field.empty() ? fields.end() : std::find(fields.begin(), fields.end(), it.field);
    if (found == fields.end() && it.must_exist) {
      return InvalidArgument(fmt::format("{}: {}: the log has no field \"{}\"; its fields are {}",
                                         log, it.name, it.field, fmt::join(fields, ", ")));
    }
    positions.push_back(static_cast<std::size_t>(found - fields.begin()));
  }
  return positions;
}

class NginxParser final : public LineParser {
 public:
  // `positions`: from PositionsOf(NginxLine::kFields).
  explicit NginxParser(std::vector<std::size_t> positions) : positions_(std::move(positions)) {}

  const char* Parse(std::string_view line, Values& values) override {
    if (const char* const fault = line_.Parse(line)) return fault;
    const bool escaped = line.find('\\') != std::string_view::npos;
    unescaped_.clear();
    unescaped_.reserve(positions_.size() * line.size());  // so that views of unescaped_ stay valid
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      const bool given = positions_[i] < line_.fields.size();
      const std::string_view value = given ? line_.fields[positions_[i]] : std::string_view();
      values[i] = escaped && value.data() != nullptr ? Unescape(value) : value;
    }
    return nullptr;
  }

 private:
  std::string_view Unescape(std::string_view value) {
    const std::size_t start = unescaped_.size();
    AppendUnescaped(value, unescaped_);
    return std::string_view(unescaped_).substr(start);
  }

  const std::vector<std::size_t> positions_;
  NginxLine line_;
  std::string unescaped_;
};

// Converts "usage.total[0]" to a JSON pointer (RFC 6901): "/usage/total/0".
std::string PointerTo(std::string_view field) {
  std::string pointer = field.empty() ? "" : "/";
  for (const char c : field) {
    if (c == '~') pointer += "~0";
    if (c == '/') pointer += "~1";
    if (c == '.' || c == '[') pointer += '/';
    if (std::string_view("~/.[]").find(c) == std::string_view::npos) pointer += c;
  }
  return pointer;
}

class JsonParser final : public LineParser {
 public:
  explicit JsonParser(const std::vector<Wanted>& wanted) : texts_(wanted.size()) {
    for (const Wanted& it : wanted) pointers_.push_back(PointerTo(it.field));
  }

  const char* Parse(std::string_view line, Values& values) override {
    simdjson::dom::object object;
    const auto parsed = parser_.parse(line.data(), line.size(), /*realloc_if_needed=*/false);
    if (parsed.get_object().get(object) != simdjson::SUCCESS) return "is not a JSON object";
    for (std::size_t i = 0; i < pointers_.size(); ++i) {
      simdjson::dom::element value;
      const bool found = object.at_pointer(pointers_[i]).get(value) == simdjson::SUCCESS;
      values[i] = found ? TextOf(value, texts_[i]) : std::string_view();
    }
    return nullptr;
  }

 private:
  static std::string_view TextOf(simdjson::dom::element value, std::string& text) {
    const auto write = [&text](auto found) {
      return std::string_view(text = fmt::format("{}", found.value_unsafe()));
    };
    using Type = simdjson::dom::element_type;
    const Type type = value.type();
    if (type == Type::STRING) return value.get_string().value_unsafe();
    if (type == Type::INT64) return write(value.get_int64());
    if (type == Type::UINT64) return write(value.get_uint64());
    if (type == Type::DOUBLE) return write(value.get_double());
    if (type == Type::BOOL) return write(value.get_bool());
    return {};
  }

  std::vector<std::string> pointers_;
  std::vector<std::string> texts_;  // of values that are not strings
  simdjson::dom::parser parser_;
};

// Parses CSV as in RFC 4180, except that values cannot contain line breaks.
class CsvParser final : public LineParser {
 public:
  explicit CsvParser(std::string_view header) {
    Split(header);
    for (const std::string_view name : cells_) names_.emplace_back(name);
  }

  Result<void> Choose(const std::string& log, const std::vector<Wanted>& wanted) {
    auto positions = PositionsOf(wanted, names_, log);
    if (!positions) return positions.error();
    columns_ = std::move(*positions);
    return {};
  }

  const char* Parse(std::string_view line, Values& values) override {
    if (!Split(line)) return "has an unclosed quote, or text after a quoted value";
    if (cells_.size() != names_.size()) return "has a different number of values than the header";
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool given = columns_[i] < cells_.size() && !cells_[columns_[i]].empty();
      values[i] = given ? cells_[columns_[i]] : std::string_view();
    }
    return nullptr;
  }

 private:
  bool Split(std::string_view line) {
    cells_.clear();
    unquoted_.clear();
    unquoted_.reserve(line.size());  // so that views of unquoted_ stay valid
    while (true) {
      if (line.starts_with('"')) {
        const std::size_t start = unquoted_.size();
        if (!TakeQuoted(line)) return false;
        cells_.push_back(std::string_view(unquoted_).substr(start));
      } else {
        cells_.push_back(line.substr(0, line.find(',')));
        line.remove_prefix(cells_.back().size());
      }
      if (line.empty()) return true;
      if (line.front() != ',') return false;
      line.remove_prefix(1);
    }
  }

  // Within the value, two quotes stand for one.
  bool TakeQuoted(std::string_view& line) {
    for (line.remove_prefix(1);; unquoted_ += '"') {
      const std::size_t end = line.find('"');
      if (end == std::string_view::npos) return false;
      unquoted_.append(line.substr(0, end));
      line.remove_prefix(end + 1);
      if (!line.starts_with('"')) return true;
      line.remove_prefix(1);
    }
  }

  std::vector<std::string> names_;
  std::vector<std::size_t> columns_;  // of each wanted value; names_.size() if the log lacks it
  Values cells_;
  std::string unquoted_;
};

Result<std::unique_ptr<LineParser>> MakeNginxParser(const std::string& log,
                                                    const std::vector<Wanted>& wanted) {
  auto positions = PositionsOf(wanted, NginxLine::kFields, log);
  if (!positions) return positions.error();
  return std::unique_ptr<LineParser>(std::make_unique<NginxParser>(std::move(*positions)));
}

}  // namespace

// Tries a few lines, because the first line may be incomplete.
Result<std::unique_ptr<LineParser>> MakeLineParser(LogFile& log,
                                                   const std::vector<Wanted>& wanted) {
  constexpr int kTried = 20;
  std::string_view rest = log.start();
  if (rest.empty()) return InvalidArgument(log.name() + ": is empty");
  for (int i = 0; i < kTried && !rest.empty(); ++i) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.starts_with('{')) return std::unique_ptr<LineParser>(new JsonParser(wanted));
    if (NginxLine().Parse(line) == nullptr) return MakeNginxParser(log.name(), wanted);
  }
  const std::string_view header = log.Next().value_or("");
  if (header.find(',') == std::string_view::npos) {
    return InvalidArgument(log.name() +
                           ": is not a log in a known format (nginx's combined format, JSON lines, "
                           "CSV with a header)");
  }
  auto csv = std::make_unique<CsvParser>(header);
  if (auto chosen = csv->Choose(log.name(), wanted); !chosen) return chosen.error();
  return std::unique_ptr<LineParser>(std::move(csv));
}

}  // namespace sluice::replay
