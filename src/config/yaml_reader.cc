#include "config/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"
#include "config/yaml_syntax.h"

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

// The maximum number of nodes that the aliases of a file may copy: a few lines could cause
// billions.
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

// Adds the keys of the nodes that `<<` names to the map. The map's own keys take precedence.
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

Position PositionOf(const YAML::Mark& mark) {
  return mark.is_null() ? Position{1, 1} : Position{mark.line + 1, mark.column + 1};
}

// Builds the tree from yaml-cpp's events. `open_` holds the incomplete containers, outermost first.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view file, const YamlItemStream& stream, Diagnostics& errors,
              YamlAliases aliases)
      : file_(file), stream_(stream), errors_(errors), aliases_(aliases) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = Start(Kind::kNull, mark, "", anchor);
    // yaml-cpp places a missing value at the start of the next token.
    if (AwaitsValue()) node.position = open_.back().items.back().position;
    Complete(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto anchored = anchored_.find(anchor);
    if (aliases_ == YamlAliases::kRefused) {
      Refuse(mark, "found an alias");
    } else if (anchored == anchored_.end()) {
      Report(mark, "found an alias inside the node that it stands for");
    } else if (MayCopy(anchored->second, mark)) {
      return Attach(anchored->second);
    }
    Attach({.kind = Kind::kRefused, .position = PositionOf(mark), .text = "", .items = {}});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = Start(Kind::kScalar, mark, tag, anchor);
    node.text = value;
    node.quoted = tag == "!";
    Complete(std::move(node), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back(Start(Kind::kSequence, mark, tag, anchor));
    open_anchors_.push_back(anchor);
    if (open_.size() == 2) streamed_ = 0;
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back(Start(Kind::kMap, mark, tag, anchor));
    open_anchors_.push_back(anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  YamlNode Take() { return std::move(document_); }

 private:
  YamlNode Start(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    // yaml-cpp marks plain ("?") and quoted ("!") scalars with its own tags.
    const bool tagged = !tag.empty() && tag != "?" && tag != "!";
    if (anchor != 0 && aliases_ == YamlAliases::kRefused) Refuse(mark, "found an anchor");
    if (tagged) Refuse(mark, fmt::format("found the tag \"{}\"", tag));
    return {.kind = kind, .position = PositionOf(mark), .text = "", .items = {}};
  }

  void Report(const YAML::Mark& mark, std::string message) {
    errors_.push_back({file_, PositionOf(mark), "", std::move(message)});
  }

  void Refuse(const YAML::Mark& mark, std::string found) {
    const bool resolves = aliases_ == YamlAliases::kResolved;
    Report(mark, std::move(found) + (resolves ? "; allowed is YAML without tags"
                                              : "; allowed is plain YAML, without anchors, aliases "
                                                "and tags"));
  }

  void Close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    const YAML::anchor_t anchor = open_anchors_.back();
    open_anchors_.pop_back();
    if (aliases_ == YamlAliases::kResolved && node.kind == Kind::kMap) Merge(node);
    Complete(std::move(node), anchor);
  }

  void Complete(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != 0 && aliases_ == YamlAliases::kResolved && MayCopy(node, YAML::Mark())) {
      anchored_.insert_or_assign(anchor, node);
    }
    Attach(std::move(node));
  }

  // Counts a copy of `node`. Returns false if it exceeds the maximum, which is reported once.
  bool MayCopy(const YamlNode& node, const YAML::Mark& mark) {
    if (copied_ > kMaxCopied) return false;
    copied_ += CountNodes(node);
    if (copied_ > kMaxCopied) {
      Report(mark, fmt::format("anchors and aliases expand to too many values; allowed are {}",
                               kMaxCopied));
    }
    return copied_ <= kMaxCopied;
  }

  void Attach(YamlNode node) {
    if (open_.empty()) {
      document_ = std::move(node);
    } else if (IsStreamed()) {
      stream_.take(streamed_++, node);
    } else {
      open_.back().items.push_back(std::move(node));
    }
  }

  // Whether the innermost open node is a map that awaits a value.
  bool AwaitsValue() const {
    return !open_.empty() && open_.back().kind == Kind::kMap && open_.back().items.size() % 2 == 1;
  }

  // Whether the innermost open node is the sequence to be streamed.
  bool IsStreamed() const {
    return stream_.take && open_.size() == 2 && open_[1].kind == Kind::kSequence &&
           open_[0].kind == Kind::kMap && open_[0].items.size() % 2 == 1 &&
           open_[0].items.back().text == stream_.key;
  }

  const std::string file_;
  const YamlItemStream& stream_;
  Diagnostics& errors_;
  const YamlAliases aliases_;
  std::vector<YamlNode> open_;
  std::vector<YAML::anchor_t> open_anchors_;  // of open_
  std::unordered_map<YAML::anchor_t, YamlNode> anchored_;
  std::size_t copied_ = 0;
  std::size_t streamed_ = 0;
  YamlNode document_{.kind = Kind::kNull, .position = {1, 1}, .text = "", .items = {}};
};

// Finds bytes that are not text, which yaml-cpp would skip or stop at.
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
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Kind::kScalar && items[i].text == key) return &items[i + 1];
  }
  return nullptr;
}

YamlNode ReadYaml(std::string_view file, std::string_view text, const YamlItemStream& stream,
                  Diagnostics& errors, YamlAliases aliases) {
  const YamlNode refused{.kind = Kind::kRefused, .position = {}, .text = "", .items = {}};
  const auto fail = [&](Position position, std::string message) {
    errors.push_back({std::string(file), position, "", std::move(message)});
    return refused;
  };
  if (const auto wrong = FindNonText(text)) {
    return fail(wrong->first, fmt::format("found {}; allowed is UTF-8 text", wrong->second));
  }
  const auto syntax = FindYamlSyntaxError(text);
  if (syntax && syntax->is_quote) return fail(syntax->position, syntax->message);
  TreeBuilder builder(file, stream, errors, aliases);
  try {
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    const bool has_document = parser.HandleNextDocument(builder);
    const YamlItemStream no_stream;
    Diagnostics unused;
    TreeBuilder second(file, no_stream, unused, aliases);
    if (has_document && parser.HandleNextDocument(second)) {
      return fail(second.Take().position, "found a second document; allowed is one in a file");
    }
  } catch (const YAML::Exception& error) {
    if (!syntax) return fail(PositionOf(error.mark), fmt::format("not YAML: {}", error.msg));
  }
  // With the mistakes that yaml-cpp's events have shown before it.
  if (syntax) return fail(syntax->position, syntax->message);
  return builder.Take();
}

}  // namespace sluice
