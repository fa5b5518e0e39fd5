// The data set criteo: lines of an indexed file, parsed on access to a sample, with rows by vocabulary or by hash.
#include <lockstep/base/error.h>
#include <lockstep/data/criteo.h>
#include <lockstep/data/files/items.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/samples/table.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

namespace lockstep::samples {
namespace {

constexpr auto kFields = static_cast<std::int64_t>(data::kCriteoFields);

/// The lines of a split: a range of a file.
struct CriteoLines {
  data::LineFile file;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class CriteoDataset final : public Dataset {
 public:
  CriteoDataset(CriteoLines lines, std::optional<data::CriteoVocabulary> vocabulary, std::int64_t rows, bool skips)
      : lines_(std::move(lines)), vocabulary_(std::move(vocabulary)), rows_(rows), skips_(skips) {}

  std::int64_t size() const override { return lines_.count; }
  bool leaves_out_errors() const override { return skips_; }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto line = lines_.first + index;
    const auto row = data::read_or_name_way_out(skips_, [&] {
      return data::parse_criteo_line(lines_.file.line(line), {lines_.file.name(), static_cast<int>(line + 1)});
    });
    const auto fields = data::fields_of(row, [this](std::size_t column, std::uint32_t category) {
      return vocabulary_ ? vocabulary_->row_of(column, category) : data::hashed_row(column, category, rows_);
    });
    auto ids = at::empty({kFields}, at::kLong);
    auto weights = at::empty({kFields}, at::kFloat);
    std::ranges::copy(fields.rows, ids.data_ptr<std::int64_t>());
    std::ranges::copy(fields.weights, weights.data_ptr<float>());
    return {
        .tensors = {{kIds, ids}, {kWeights, weights}, {kTargets, at::full({1}, row.clicked ? 1.0 : 0.0, at::kFloat)}}};
  }

 private:
  CriteoLines lines_;
  std::optional<data::CriteoVocabulary> vocabulary_;
  std::int64_t rows_;
  bool skips_;
};

std::filesystem::path cache_of(const CriteoOptions& options) {
  return options.cache.empty() ? options.root : options.cache;
}

const char* cache_key_of(const CriteoOptions& options) { return options.cache.empty() ? "data.root" : "data.cache"; }

CriteoLines lines_of(const CriteoOptions& options, std::string_view name) {
  const std::filesystem::path root = options.root;
  std::error_code code;
  if (!std::filesystem::is_directory(root, code)) {
    fail(ErrorKind::config, "data.root",
         "{} is no folder; give the one with {}, of the real set or of `lockstep data synthesize criteo`", options.root,
         data::kCriteoTrain);
  }
  CriteoLines lines{data::LineFile(root / name, "data.root", cache_of(options), cache_key_of(options))};
  lines.count = lines.file.size();
  return lines;
}

/// The number of lines of train.txt that are used for training.
std::int64_t train_lines(const CriteoOptions& options, std::int64_t all) {
  return all - static_cast<std::int64_t>(static_cast<double>(all) * options.eval_share);
}

void require_rows(const CriteoOptions& options, const data::CriteoVocabulary& vocabulary) {
  if (vocabulary.rows() <= options.rows) return;
  fail(ErrorKind::config, "data.rows",
       "is {}, and the categories that occur {} times in {} need {} rows; give data.rows and model.rows at least that, "
       "raise data.min_count, or use data.ids=hash",
       options.rows, options.min_count, data::kCriteoTrain, vocabulary.rows());
}

}  // namespace

void describe(ConfigFields& fields, CriteoOptions& options) {
  fields.field("root", options.root, required(a_path()), "folder with train.txt and test.txt");
  fields.field("cache", options.cache, a_path(),
               "folder for what is computed from the files once: where lines begin, and the vocabulary; empty: root");
  fields.field("ids", options.ids, one_of({"counts", "hash"}),
               "the row of a category. counts: by a vocabulary of those that are not rare; hash: by its hash");
  fields.field("min_count", options.min_count, between(1, 4294967295.0),
               "counts: categories that occur less often in training share a row in their column");
  fields.field("rows", options.rows, between(data::kCriteoFixedRows + 1, 1e12),
               "hash: rows of the tables; counts: most rows of the vocabulary (give model.rows)");
  fields.field("eval_share", options.eval_share, from_to_below(0, 1),
               "share at the end of train.txt to evaluate on, instead of test.txt; 0: test.txt");
  data::describe_on_error(fields, options.on_error);
}

std::shared_ptr<const Dataset> load_criteo(const CriteoOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  const bool skips = options.on_error == "skip";
  std::error_code code;
  if (!trains && options.eval_share == 0 &&
      !std::filesystem::exists(std::filesystem::path(options.root) / data::kCriteoTest, code)) {
    return nullptr;
  }
  auto training = lines_of(options, data::kCriteoTrain);
  training.count = train_lines(options, training.file.size());
  std::optional<data::CriteoVocabulary> vocabulary;
  if (options.ids == "counts") {
    vocabulary.emplace(training.file, training.count, options.min_count, skips, cache_of(options),
                       cache_key_of(options));
    require_rows(options, *vocabulary);
  }
  auto lines = [&]() -> CriteoLines {
    if (trains) return std::move(training);
    if (options.eval_share == 0) return lines_of(options, data::kCriteoTest);
    const auto first = training.count;
    const auto count = training.file.size() - first;
    return {std::move(training.file), first, count};
  }();
  if (lines.count < 1) {
    fail(ErrorKind::config, "data.root", "{} has no lines to {}", lines.file.name(),
         trains ? "train on" : "evaluate on");
  }
  return std::make_shared<CriteoDataset>(std::move(lines), std::move(vocabulary), options.rows, skips);
}

Batch criteo_example() {
  Batch batch;
  batch.count = 1;
  batch.tensors.emplace(kIds, at::zeros({1, kFields}, at::kLong));
  batch.tensors.emplace(kWeights, at::ones({1, kFields}, at::kFloat));
  batch.tensors.emplace(kTargets, at::zeros({1, 1}, at::kFloat));
  return batch;
}

}  // namespace lockstep::samples
