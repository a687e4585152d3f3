// The output of the accuracy program.
//
// Not thread-safe.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/accuracy/judgement.h"

namespace sluice::accuracy {

// Prints a table to stdout row by row, and sums up the rows of each subject.
class Report {
 public:
  void Begin(const std::string& title);
  void Row(const std::string& subject, const Judgement& judgement);
  // Records an error that does not belong to a subject.
  void Fail(const std::string& what);

  // Prints the sums and the verdict. Returns whether all promises were kept.
  bool End();

 private:
  struct Sum {
    std::string name;
    Judgement judgement;
  };

  std::vector<Sum> sums_;
  int mistakes_ = 0;
};

// Writes every check to a CSV file, with times in µs since the epoch.
class Recording {
 public:
  // Writes nothing if `path` is empty.
  explicit Recording(const std::string& path);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void Add(const std::string& pattern, const Subject& subject, const History& history);

 private:
  std::FILE* file_ = nullptr;
};

}  // namespace sluice::accuracy
