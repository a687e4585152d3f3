// A line of nginx's combined format, which is also Apache's.
//
// Thread-safe.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sluice::replay {

struct NginxLine {
  // The names of its fields; endpoint and path are the same field.
  static constexpr std::array<std::string_view, 11> kFields = {
      "client_ip", "user",  "time",    "method",     "endpoint", "query",
      "status",    "bytes", "referer", "user_agent", "path"};

  // By position in kFields; data() is null if the field is "-" or missing.
  std::array<std::string_view, kFields.size()> fields;

  // Returns what is wrong with `line`, or null. The fields are views of `line`.
  const char* Parse(std::string_view line);
};

// Appends `text` with its escapes replaced: nginx writes "\x22" for a quote, Apache "\"".
void AppendUnescaped(std::string_view text, std::string& out);

}  // namespace sluice::replay
