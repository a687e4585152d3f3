#include "config/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

Position PositionOf(const YAML::Mark& mark) {
  return mark.is_null() ? Position{1, 1} : Position{mark.line + 1, mark.column + 1};
}

// Builds the tree from yaml-cpp's events. `open_` holds the containers that are not complete yet,
// the outermost first.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view file, const YamlItemStream& stream, Diagnostics& errors)
      : file_(file), stream_(stream), errors_(errors) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = Start(Kind::kNull, mark, "", anchor);
    // yaml-cpp puts a value that is not there where the next thing begins.
    if (AwaitsValue()) node.position = open_.back().items.back().position;
    Attach(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "found an alias");
    Attach({.kind = Kind::kRefused, .position = PositionOf(mark), .text = "", .items = {}});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = Start(Kind::kScalar, mark, tag, anchor);
    node.text = value;
    Attach(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back(Start(Kind::kSequence, mark, tag, anchor));
    if (open_.size() == 2) streamed_ = 0;
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back(Start(Kind::kMap, mark, tag, anchor));
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  YamlNode Take() { return std::move(document_); }

 private:
  YamlNode Start(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    // yaml-cpp tells plain ("?") from quoted ("!") scalars by tags of its own.
    const bool tagged = !tag.empty() && tag != "?" && tag != "!";
    if (anchor != 0) Refuse(mark, "found an anchor");
    if (tagged) Refuse(mark, fmt::format("found the tag \"{}\"", tag));
    return {.kind = kind, .position = PositionOf(mark), .text = "", .items = {}};
  }

  void Refuse(const YAML::Mark& mark, std::string found) {
    errors_.push_back({file_, PositionOf(mark), "",
                       std::move(found) + "; allowed is plain YAML, without anchors, aliases and "
                                          "tags"});
  }

  void Close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    Attach(std::move(node));
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

  // Whether the innermost open node is a map that has a key without a value.
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
  std::vector<YamlNode> open_;
  std::size_t streamed_ = 0;
  YamlNode document_{.kind = Kind::kNull, .position = {1, 1}, .text = "", .items = {}};
};

// What yaml-cpp would read past or stop at: bytes that are no text.
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
                  Diagnostics& errors) {
  const YamlNode refused{.kind = Kind::kRefused, .position = {}, .text = "", .items = {}};
  const auto fail = [&](Position position, std::string message) {
    errors.push_back({std::string(file), position, "", std::move(message)});
    return refused;
  };
  if (const auto wrong = FindNonText(text)) {
    return fail(wrong->first, fmt::format("found {}; allowed is UTF-8 text", wrong->second));
  }
  TreeBuilder builder(file, stream, errors);
  try {
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    if (!parser.HandleNextDocument(builder)) return builder.Take();
    const YamlItemStream no_stream;
    Diagnostics unused;
    TreeBuilder second(file, no_stream, unused);
    if (parser.HandleNextDocument(second)) {
      return fail(second.Take().position, "found a second document; allowed is one in a file");
    }
    return builder.Take();
  } catch (const YAML::Exception& error) {
    return fail(PositionOf(error.mark), fmt::format("not YAML: {}", error.msg));
  }
}

}  // namespace sluice
