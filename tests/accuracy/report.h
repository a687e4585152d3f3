// What the accuracy program prints and records.
//
// One thread at a time.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/accuracy/judgement.h"

namespace sluice::accuracy {

// A table on stdout, printed row by row. Adds up the rows of each subject.
class Report {
 public:
  void Begin(const std::string& title);
  void Row(const std::string& subject, const Judgement& judgement);
  // A mistake that is none of a subject's.
  void Fail(const std::string& what);

  // Prints the sums, and whether all promises were kept; returns that.
  bool End();

 private:
  struct Sum {
    std::string name;
    Judgement judgement;
  };

  std::vector<Sum> sums_;
  int mistakes_ = 0;
};

// Every check as a line of a CSV file; times in microseconds since the epoch.
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
