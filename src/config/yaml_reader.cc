#include "config/yaml_reader.h"

#include <yaml.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

// The maximum depth of a file: more than any file needs.
constexpr std::size_t kMaxDepth = 100;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The maximum number of nodes that are copied for the anchors and aliases of a file. Without it, a
// few lines could expand to billions of nodes.
constexpr std::size_t kMaxCopied = 1'000'000;

std::size_t CountNodes(const YamlNode& node) {
  std::size_t count = 1;
  for (const YamlNode& item : node.items) count += CountNodes(item);
  return count;
}

bool IsMergeKey(const YamlNode& key, const YamlNode& value) {
  const auto is_map = [](const YamlNode& it) { return it.kind == Kind::kMap; };
  return key.kind == Kind::kScalar && !key.quoted && key.text == "<<" &&
         (is_map(value) || (value.kind == Kind::kSequence &&
                            std::all_of(value.items.begin(), value.items.end(), is_map)));
}

void AddAbsentKeys(const YamlNode& from, YamlNode& map) {
  for (std::size_t i = 0; i + 1 < from.items.size(); i += 2) {
    if (map.Find(from.items[i].text) != nullptr) continue;
    map.items.push_back(from.items[i]);
    map.items.push_back(from.items[i + 1]);
  }
}

// Adds the pairs of the nodes that `<<` names. The keys of `map` itself take precedence.
void Merge(YamlNode& map) {
  for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
    if (!IsMergeKey(map.items[i], map.items[i + 1])) continue;
    const YamlNode from = std::move(map.items[i + 1]);
    const auto key = map.items.begin() + static_cast<std::ptrdiff_t>(i);
    map.items.erase(key, key + 2);
    if (from.kind == Kind::kMap) return AddAbsentKeys(from, map);
    for (const YamlNode& each : from.items) AddAbsentKeys(each, map);
    return;
  }
}

Position PositionOf(const yaml_mark_t& mark) {
  return {static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1};
}

std::string TextOf(const yaml_char_t* text) {
  return text == nullptr ? "" : reinterpret_cast<const char*>(text);
}

// A collection that is not complete yet.
struct OpenNode {
  YamlNode node;
  std::string anchor;
  int indent = 0;  // the column of the innermost collection in block style; -1: none
};

// Builds the tree from libyaml's events. `open_` holds the incomplete collections, outermost first.
class TreeReader {
 public:
  TreeReader(std::string_view file, std::string_view text, const YamlItemStream& stream,
             Diagnostics& errors, YamlAliases aliases)
      : file_(file), text_(text), stream_(stream), errors_(errors), aliases_(aliases) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~TreeReader() { yaml_parser_delete(&parser_); }
  TreeReader(const TreeReader&) = delete;
  TreeReader& operator=(const TreeReader&) = delete;

  YamlNode Read() {
    for (bool ended = false; !ended && !failed_;) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) {
        FailWithProblem();
        break;
      }
      ended = event.type == YAML_STREAM_END_EVENT;
      Take(event);
      yaml_event_delete(&event);
    }
    if (failed_) return {.kind = Kind::kRefused};
    return std::move(document_);
  }

 private:
  void Take(const yaml_event_t& event) {
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        ++documents_;
        return;
      case YAML_ALIAS_EVENT:
        return TakeAlias(event);
      case YAML_SCALAR_EVENT:
        return TakeScalar(event);
      case YAML_SEQUENCE_START_EVENT: {
        const auto& it = event.data.sequence_start;
        return Open(Kind::kSequence, event, it.tag, it.anchor,
                    it.style == YAML_FLOW_SEQUENCE_STYLE);
      }
      case YAML_MAPPING_START_EVENT: {
        const auto& it = event.data.mapping_start;
        return Open(Kind::kMap, event, it.tag, it.anchor, it.style == YAML_FLOW_MAPPING_STYLE);
      }
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        return Close();
      default:
        return;
    }
  }

  void TakeAlias(const yaml_event_t& event) {
    const std::string name = TextOf(event.data.alias.anchor);
    const Position position = PositionOf(event.start_mark);
    const auto is_open = [&](const OpenNode& open) { return open.anchor == name; };
    const auto anchored = anchored_.find(name);
    if (aliases_ == YamlAliases::kRefused) {
      Refuse(position, "found an alias");
    } else if (std::any_of(open_.begin(), open_.end(), is_open)) {
      Report(position, "found an alias inside the node that it refers to");
    } else if (anchored == anchored_.end()) {
      Report(position,
             fmt::format("found an alias of \"{}\", but no node above has this name", name));
    } else if (MayCopy(anchored->second, position)) {
      return Attach(anchored->second);
    }
    Attach({.kind = Kind::kRefused, .position = position});
  }

  void TakeScalar(const yaml_event_t& event) {
    const auto& scalar = event.data.scalar;
    const bool plain = scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (!plain && !CheckQuote(event)) return;
    YamlNode node = Start(Kind::kScalar, event, scalar.tag, scalar.anchor);
    node.text.assign(reinterpret_cast<const char*>(scalar.value), scalar.length);
    node.quoted = !plain;
    if (plain && IsNull(node.text)) {
      node.kind = Kind::kNull;
      node.text.clear();
      if (AwaitsValue()) node.position = open_.back().node.items.back().position;
    }
    Complete(std::move(node), TextOf(scalar.anchor));
  }

  static bool IsNull(std::string_view text) {
    return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
  }

  // Fails if a quoted text has a line that is not indented more than the collection around it (YAML
  // 1.2, 6.3; libyaml does not check this). Otherwise a quote that is not closed would take the
  // lines after it into the text.
  bool CheckQuote(const yaml_event_t& event) {
    const yaml_scalar_style_t style = event.data.scalar.style;
    const bool quoted =
        style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    const std::size_t first = event.start_mark.line + 1;
    const std::size_t last = event.end_mark.line;
    if (!quoted || first > last || IsIndented(first, last)) return true;
    Fail(PositionOf(event.start_mark),
         fmt::format(
             "the quote that opens here is not closed before line {}; lines of its text must be "
             "indented more than the list or map around it",
             last + 1));
    return false;
  }

  // Whether each of the lines `first` to `last`, except empty ones, is indented more than the
  // collection around the quote.
  bool IsIndented(std::size_t first, std::size_t last) {
    for (; line_ <= last && row_ < text_.size(); ++line_) {
      const std::string_view row = text_.substr(row_, text_.find('\n', row_) - row_);
      const std::size_t spaces = row.find_first_not_of(" \r");
      const bool is_empty = spaces == row.npos;
      if (line_ >= first && !is_empty && static_cast<int>(spaces) <= indent()) return false;
      row_ += row.size() + 1;
    }
    return true;
  }

  int indent() const { return open_.empty() ? -1 : open_.back().indent; }

  YamlNode Start(Kind kind, const yaml_event_t& event, const yaml_char_t* tag,
                 const yaml_char_t* anchor) {
    const Position position = PositionOf(event.start_mark);
    if (documents_ > 1 && open_.empty()) {
      Fail(position, "found a second document; allowed is one document per file", "");
    }
    if (anchor != nullptr && aliases_ == YamlAliases::kRefused) {
      Refuse(position, "found an anchor");
    }
    if (tag != nullptr) Refuse(position, fmt::format("found the tag \"{}\"", TextOf(tag)));
    return {.kind = kind, .position = position};
  }

  void Open(Kind kind, const yaml_event_t& event, const yaml_char_t* tag, const yaml_char_t* anchor,
            bool is_flow) {
    const int column = is_flow ? indent() : static_cast<int>(event.start_mark.column);
    open_.push_back({Start(kind, event, tag, anchor), TextOf(anchor), column});
    if (open_.size() == 2) streamed_ = 0;
    if (open_.size() > kMaxDepth) Fail(PositionOf(event.start_mark), "nested too deeply");
  }

  void Close() {
    OpenNode open = std::move(open_.back());
    open_.pop_back();
    if (aliases_ == YamlAliases::kResolved && open.node.kind == Kind::kMap) Merge(open.node);
    Complete(std::move(open.node), open.anchor);
  }

  void Complete(YamlNode node, const std::string& anchor) {
    if (!anchor.empty() && aliases_ == YamlAliases::kResolved && MayCopy(node, node.position)) {
      anchored_.insert_or_assign(anchor, node);
    }
    Attach(std::move(node));
  }

  // Counts a copy of `node`. If there are too many copies, returns false and reports this once.
  bool MayCopy(const YamlNode& node, Position position) {
    if (copied_ > kMaxCopied) return false;
    copied_ += CountNodes(node);
    if (copied_ > kMaxCopied) {
      Report(position,
             fmt::format("anchors and aliases expand to more than {} values", kMaxCopied));
    }
    return copied_ <= kMaxCopied;
  }

  void Attach(YamlNode node) {
    if (open_.empty()) {
      document_ = std::move(node);
    } else if (IsStreamed()) {
      stream_.take(streamed_++, node);
    } else {
      open_.back().node.items.push_back(std::move(node));
    }
  }

  // Whether the innermost open node is a map that awaits a value.
  bool AwaitsValue() const {
    return !open_.empty() && open_.back().node.kind == Kind::kMap &&
           open_.back().node.items.size() % 2 == 1;
  }

  // Whether the innermost open node is the sequence to be streamed.
  bool IsStreamed() const {
    if (!stream_.take || open_.size() != 2 || open_[1].node.kind != Kind::kSequence) return false;
    const YamlNode& root = open_[0].node;
    return root.kind == Kind::kMap && root.items.size() % 2 == 1 &&
           root.items.back().text == stream_.key;
  }

  void Report(Position position, std::string message) {
    errors_.push_back({file_, position, "", std::move(message)});
  }

  void Refuse(Position position, std::string found) {
    const bool resolves = aliases_ == YamlAliases::kResolved;
    Report(position, std::move(found) + (resolves ? "; allowed is YAML without tags"
                                                  : "; allowed is plain YAML, without anchors, "
                                                    "aliases and tags"));
  }

  // Reports a mistake after which the rest of the file cannot be parsed.
  void Fail(Position position, std::string_view message, std::string_view kind = "not YAML: ") {
    if (!std::exchange(failed_, true)) Report(position, fmt::format("{}{}", kind, message));
  }

  // Fails with libyaml's error. If the error is in a quoted text, reports the position of the
  // opening quote.
  void FailWithProblem() {
    const std::string_view problem = parser_.problem != nullptr ? parser_.problem : "an error";
    const std::string_view context = parser_.context != nullptr ? parser_.context : "";
    if (context == "while scanning a quoted scalar") {
      return Fail(PositionOf(parser_.context_mark),
                  fmt::format("the quote that opens here is not closed: {}", problem));
    }
    constexpr std::string_view kNoToken = "found character that cannot start any token";
    if (problem == kNoToken && *parser_.buffer.pointer == '\t') {
      return Fail(PositionOf(parser_.problem_mark), "found a tab; indent with spaces");
    }
    const auto begin = parser_.context_mark.line;
    const std::string since = context.empty() || begin == parser_.problem_mark.line
                                  ? std::string()
                                  : fmt::format(", which begins in line {}", begin + 1);
    Fail(PositionOf(parser_.problem_mark),
         fmt::format("{}{}{}{}", context, since, context.empty() ? "" : ": ", problem));
  }

  const std::string file_;
  const std::string_view text_;
  const YamlItemStream& stream_;
  Diagnostics& errors_;
  const YamlAliases aliases_;
  yaml_parser_t parser_;
  std::vector<OpenNode> open_;
  std::unordered_map<std::string, YamlNode> anchored_;
  std::size_t copied_ = 0;
  std::size_t streamed_ = 0;
  std::size_t line_ = 0;  // the next line for IsIndented to read
  std::size_t row_ = 0;   // where this line begins in text_
  int documents_ = 0;
  bool failed_ = false;
  YamlNode document_{.kind = Kind::kNull, .position = {1, 1}};
};

// Finds bytes that are not text.
std::optional<std::pair<Position, std::string_view>> FindNonText(std::string_view text) {
  int line = 1;
  while (!text.empty()) {
    const std::string_view row = text.substr(0, text.find('\n'));
    const auto control = std::find_if(row.begin(), row.end(), [](char c) {
      return (static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\r') || c == '\x7F';
    });
    if (control != row.end()) {
      return {{{line, static_cast<int>(control - row.begin()) + 1}, "a control character"}};
    }
    if (!IsValidUtf8(row)) return {{{line, 1}, "bytes that are not UTF-8"}};
    text.remove_prefix(std::min(text.size(), row.size() + 1));
    ++line;
  }
  return std::nullopt;
}

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (std::size_t i = 0; kind == Kind::kMap && i + 1 < items.size(); i += 2) {
    if (items[i].kind == Kind::kScalar && items[i].text == key) return &items[i + 1];
  }
  return nullptr;
}

YamlNode ReadYaml(std::string_view file, std::string_view text, const YamlItemStream& stream,
                  Diagnostics& errors, YamlAliases aliases) {
  if (const auto wrong = FindNonText(text)) {
    errors.push_back({std::string(file), wrong->first, "",
                      fmt::format("found {}; allowed is UTF-8 text", wrong->second)});
    return {.kind = Kind::kRefused};
  }
  return TreeReader(file, text, stream, errors, aliases).Read();
}

}  // namespace sluice
