#include "config/yaml_syntax.h"

#include <yaml.h>

#include <cstddef>
#include <vector>

#include <fmt/format.h>

namespace sluice {
namespace {

Position PositionOf(const yaml_mark_t& mark) {
  return {static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1};
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~Parser() { yaml_parser_delete(&parser_); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  std::optional<YamlSyntaxError> Run() {
    for (bool ended = false; !ended;) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) return Error();
      ended = event.type == YAML_STREAM_END_EVENT;
      const bool fine = Take(event);
      yaml_event_delete(&event);
      if (!fine) return quote_;
    }
    return std::nullopt;
  }

 private:
  // Returns false if the event is a quoted text with a line that YAML does not allow in it.
  bool Take(const yaml_event_t& event) {
    const auto column = static_cast<int>(event.start_mark.column);
    switch (event.type) {
      case YAML_MAPPING_START_EVENT:
        indents_.push_back(event.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE ? indent()
                                                                                     : column);
        return true;
      case YAML_SEQUENCE_START_EVENT:
        indents_.push_back(event.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE ? indent()
                                                                                       : column);
        return true;
      case YAML_MAPPING_END_EVENT:
      case YAML_SEQUENCE_END_EVENT:
        indents_.pop_back();
        return true;
      case YAML_SCALAR_EVENT:
        return TakeScalar(event);
      default:
        return true;
    }
  }

  bool TakeScalar(const yaml_event_t& event) {
    const yaml_scalar_style_t style = event.data.scalar.style;
    const bool quoted =
        style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    if (!quoted || event.start_mark.line == event.end_mark.line) return true;
    if (IsIndented(event.start_mark.line + 1, event.end_mark.line)) return true;
    quote_ = {PositionOf(event.start_mark),
              fmt::format("not YAML: the quote that opens here is closed only in line {}; lines of "
                          "its text must be indented more",
                          event.end_mark.line + 1),
              true};
    return false;
  }

  // The column of the innermost collection in block style; -1: none.
  int indent() const { return indents_.empty() ? -1 : indents_.back(); }

  // Whether each of these lines with text is indented more than the collection around it (YAML 1.2,
  // 6.3; libyaml does not check it).
  bool IsIndented(std::size_t first, std::size_t last) const {
    std::size_t begin = 0;
    for (std::size_t line = 0; line <= last && begin < text_.size(); ++line) {
      const std::string_view row = text_.substr(begin, text_.find('\n', begin) - begin);
      const std::size_t spaces = row.find_first_not_of(" \r");
      const bool empty = spaces == std::string_view::npos;
      if (line >= first && !empty && static_cast<int>(spaces) <= indent()) return false;
      begin += row.size() + 1;
    }
    return true;
  }

  YamlSyntaxError Error() const {
    const std::string_view problem = parser_.problem != nullptr ? parser_.problem : "a mistake";
    const std::string_view context = parser_.context != nullptr ? parser_.context : "";
    if (context == "while scanning a quoted scalar") {
      return {PositionOf(parser_.context_mark),
              fmt::format("not YAML: the quote that opens here is not closed: {}", problem), true};
    }
    const auto begin = parser_.context_mark.line;
    const std::string since = context.empty() || begin == parser_.problem_mark.line
                                  ? std::string()
                                  : fmt::format(", which begins in line {}", begin + 1);
    return {PositionOf(parser_.problem_mark), fmt::format("not YAML: {}{}{}{}", context, since,
                                                          context.empty() ? "" : ": ", problem)};
  }

  const std::string_view text_;
  yaml_parser_t parser_;
  std::vector<int> indents_;  // of the open collections
  YamlSyntaxError quote_;     // found by Take
};

}  // namespace

std::optional<YamlSyntaxError> FindYamlSyntaxError(std::string_view text) {
  return Parser(text).Run();
}

}  // namespace sluice
