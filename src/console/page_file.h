// The files of the console's page, embedded at build time (cmake/embed_files.py writes the table).
#pragma once

#include <span>
#include <string_view>

namespace sluice {

struct PageFile {
  std::string_view path;  // "/console.js"
  std::string_view content_type;
  std::string_view text;
};

std::span<const PageFile> PageFiles();

}  // namespace sluice
