// A problem in the files of a data set.
#pragma once

#include <lockstep/base/error.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::data {

struct Problem {
  std::filesystem::path file;
  std::int64_t record = -1;  ///< counted from 0 within the file; -1: the file as a whole
  std::string rule;          ///< the rule that is broken, with the actual values
  ErrorKind kind = ErrorKind::data;
};

/// "dir/data_batch_1.bin: record 17: ...".
std::string to_text(const Problem& problem);

using Problems = std::vector<Problem>;

}  // namespace lockstep::data
