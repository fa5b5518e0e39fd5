// Criteo's clicks as a data set: rows of embedding tables, their weights, and clicks as targets.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::samples {

/// Fields: `ids`, int64 [39], rows of a table (data/criteo.h); `weights`, float32 [39], by which they are
/// multiplied; `targets`, float32 [1], 1 for a click and else 0.
inline constexpr const char* kIds = "ids";
inline constexpr const char* kWeights = "weights";

struct CriteoOptions {
  std::string root;
  std::string cache;             ///< empty: root
  std::string ids = "counts";    ///< counts: rows of a vocabulary; hash
  std::int64_t min_count = 100;  ///< counts: less frequent categories share one row per column
  std::int64_t rows = 200'000;   ///< hash: rows of the table; counts: the maximum number of rows
  double eval_share = 0;         ///< at the end of train.txt, instead of test.txt
  std::string on_error = "fail";
};
void describe(ConfigFields& fields, CriteoOptions& options);

/// A split of the folder's train.txt and test.txt. Lines are read on access; nullptr for the test split when there is
/// neither a test.txt nor a share.
///
/// Error(config) for a missing file, an empty split, and a vocabulary of more than `rows` rows; Error(data) with file,
/// line and column for an invalid line, when it is read.
std::shared_ptr<const Dataset> load_criteo(const CriteoOptions& options, data::Split split);

/// A batch of one sample with such fields; reads no data.
Batch criteo_example();

}  // namespace lockstep::samples
