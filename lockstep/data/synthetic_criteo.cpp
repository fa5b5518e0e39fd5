// The generator of synthetic clicks: Zipf categories, log-normal numbers, and a logistic teacher, calibrated on rows
// that are in no file. A row depends on seed, recipe, split and index alone.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/data/criteo.h>
#include <lockstep/data/pictures.h>
#include <lockstep/data/roc_area.h>
#include <lockstep/data/sampler.h>
#include <lockstep/data/synthesize.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::data {
namespace {

constexpr std::int64_t kMostRows = 1'000'000'000;
constexpr std::int64_t kFewestCategories = 3;
constexpr double kShareEmpty = 0.05;
constexpr double kShareOfClicks = 0.256;
constexpr double kSpread = 1.5;  // standard deviation of the teacher's score: an AUC of about 0.8
constexpr int kCalibrationRows = 10'000;
constexpr std::size_t kColumnWithNegatives = 1;
constexpr std::size_t kFlushBytes = 1 << 20;
constexpr std::string_view kMarker = "SYNTHETIC.txt";
constexpr std::string_view kTeacher = "teacher.json";

// Parts of keys, so that no two uses share random numbers.
enum class CriteoKey : std::uint64_t { row = 11, calibration = 12, weight = 13, coefficient = 14, mix = 15 };

/// The logarithm of a number of column `column` is normal with this mean and this deviation.
double log_mean(std::size_t column) { return 0.5 + 0.3 * static_cast<double>(column % 7); }
double log_deviation(std::size_t column) { return 0.8 + 0.1 * static_cast<double>(column % 4); }

/// A bijection of 32 bits: the finalizer of MurmurHash3.
std::uint32_t mix32(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return x ^ (x >> 16);
}

/// Numbers 1..n with probabilities proportional to k^-1.1, by rejection from the continuous distribution with that
/// density (Devroye, "Non-Uniform Random Variate Generation", 1986, X.6.1), cut off at n.
class Zipf {
 public:
  explicit Zipf(std::int64_t n) : n_(n), lowest_(exact_exp(-0.1 * exact_log(static_cast<double>(n) + 1))) {}

  std::int64_t draw(RandomStream& random) const {
    for (;;) {
      const double u = lowest_ + (1 - lowest_) * (1 - random.uniform());
      const double v = random.uniform();
      const double u2 = u * u, u4 = u2 * u2;
      const double x = std::floor(1 / (u4 * u4 * u2));  // u^-10, since 1 / (1.1 - 1) = 10
      if (x > static_cast<double>(n_)) continue;
      const double t = exact_exp(0.1 * exact_log(1 + 1 / x));
      if (v * x * (t - 1) * kB <= t * (kB - 1)) return static_cast<std::int64_t>(x);
    }
  }

 private:
  static constexpr double kB = 1.0717734625362931;  // 2^0.1
  std::int64_t n_;
  double lowest_;  // (n + 1)^-0.1
};

/// Nearly normal: the sum of twelve uniform numbers has the variance 1.
double draw_normal(RandomStream& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

double draw_weight(RandomStream random) { return 2 * (random.uniform() + random.uniform() + random.uniform() - 1.5); }

/// The cells of rows, and the teacher's scores for them.
class CriteoGenerator {
 public:
  explicit CriteoGenerator(const CriteoRecipe& recipe) : seed_(recipe.seed) {
    for (std::size_t c = 0; c < kCriteoCategories; ++c) {
      const double wanted = static_cast<double>(kCriteoCardinalities[c]) * recipe.scale;
      columns_.emplace_back(std::max(kFewestCategories, static_cast<std::int64_t>(wanted + 0.5)));
      mixers_.push_back(static_cast<std::uint32_t>(stream(CriteoKey::mix, c).next()));
    }
    for (std::size_t c = 0; c < kCriteoNumbers; ++c)
      coefficients_.push_back(draw_weight(stream(CriteoKey::coefficient, c)));
    calibrate();
  }

  CriteoRow row(RandomStream random) const {
    CriteoRow row;
    for (std::size_t c = 0; c < kCriteoNumbers; ++c) {
      const bool empty = random.uniform() < kShareEmpty;
      const double value = exact_exp(log_mean(c) + log_deviation(c) * draw_normal(random));
      if (!empty) row.numbers[c] = static_cast<std::int64_t>(value) - (c == kColumnWithNegatives ? 2 : 0);
    }
    for (std::size_t c = 0; c < kCriteoCategories; ++c) {
      const bool empty = random.uniform() < kShareEmpty;
      const auto place = static_cast<std::uint32_t>(columns_[c].draw(random));
      if (!empty) row.categories[c] = mix32(place ^ mixers_[c]);
    }
    row.clicked = random.uniform() < 1 / (1 + exact_exp(-score(row)));
    return row;
  }

  /// The logit of the probability of a click.
  double score(const CriteoRow& row) const { return gain_ * raw_score(row) + bias_; }

 private:
  RandomStream stream(CriteoKey key, std::uint64_t first, std::uint64_t second = 0) const {
    return {seed_, RandomPurpose::synthesize, {static_cast<std::uint64_t>(key), first, second}};
  }

  double raw_score(const CriteoRow& row) const {
    double sum = 0;
    for (std::size_t c = 0; c < kCriteoNumbers; ++c) {
      if (row.numbers[c]) sum += coefficients_[c] * (signed_log(static_cast<double>(*row.numbers[c])) - log_mean(c));
    }
    for (std::size_t c = 0; c < kCriteoCategories; ++c) {
      if (row.categories[c]) sum += 0.5 * draw_weight(stream(CriteoKey::weight, c, *row.categories[c]));
    }
    return sum;
  }

  /// Chooses gain and bias from rows that are in no file: the deviation of scores, and the share of clicks.
  void calibrate() {
    std::vector<double> scores;
    double sum = 0, squares = 0;
    for (std::uint64_t i = 0; i < kCalibrationRows; ++i) {
      scores.push_back(raw_score(row(stream(CriteoKey::calibration, i))));
      sum += scores.back();
      squares += scores.back() * scores.back();
    }
    const double mean = sum / kCalibrationRows;
    gain_ = kSpread / std::sqrt(std::max(squares / kCalibrationRows - mean * mean, 1e-12));
    double low = -50 - gain_ * mean, high = 50 - gain_ * mean;
    for (int i = 0; i < 50; ++i) {
      bias_ = (low + high) / 2;
      double share = 0;
      for (const double score : scores) share += 1 / (1 + exact_exp(-(gain_ * score + bias_)));
      (share > kShareOfClicks * kCalibrationRows ? high : low) = bias_;
    }
  }

  std::uint64_t seed_;
  std::vector<Zipf> columns_;
  std::vector<std::uint32_t> mixers_;
  std::vector<double> coefficients_;
  double gain_ = 1;
  double bias_ = 0;
};

void append_line(std::string& text, const CriteoRow& row) {
  text += row.clicked ? '1' : '0';
  for (const auto& number : row.numbers) {
    text += '\t';
    if (number) fmt::format_to(std::back_inserter(text), "{}", *number);
  }
  for (const auto& category : row.categories) {
    text += '\t';
    if (category) fmt::format_to(std::back_inserter(text), "{:08x}", *category);
  }
  text += '\n';
}

struct SplitFacts {
  double auc = std::numeric_limits<double>::quiet_NaN();
  double rate = 0;
};

SplitFacts write_split(const CriteoGenerator& generator, const std::filesystem::path& file, Split split,
                       std::int64_t rows, std::uint64_t seed) {
  std::vector<ScoredSample> scored;
  scored.reserve(static_cast<std::size_t>(rows));
  AtomicFile out(file);
  std::string text;
  std::int64_t clicks = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto row = generator.row({seed,
                                    RandomPurpose::synthesize,
                                    {static_cast<std::uint64_t>(CriteoKey::row), static_cast<std::uint64_t>(split),
                                     static_cast<std::uint64_t>(i)}});
    scored.push_back({generator.score(row), row.clicked});
    clicks += row.clicked ? 1 : 0;
    append_line(text, row);
    if (text.size() < kFlushBytes) continue;
    out.write(text);
    text.clear();
  }
  out.write(text);
  out.commit();
  SplitFacts facts;
  facts.rate = static_cast<double>(clicks) / static_cast<double>(rows);
  if (const auto auc = roc_area(std::move(scored))) facts.auc = *auc;
  return facts;
}

void check_recipe(const CriteoRecipe& recipe) {
  for (const auto& [what, rows] : {std::pair{"train", recipe.rows}, std::pair{"test", recipe.test_rows}}) {
    if (1 <= rows && rows <= kMostRows) continue;
    fail(ErrorKind::invalid_argument, "synthesize", "the number of {} rows is {}; it must be 1 to {}", what, rows,
         kMostRows);
  }
  if (recipe.scale > 0 && recipe.scale <= kLargestCriteoScale) return;
  fail(ErrorKind::invalid_argument, "synthesize",
       "the scale of the cardinalities is {}; it must be above 0 and at most {} (1: as many as Kaggle's set has)",
       recipe.scale, kLargestCriteoScale);
}

void prepare_criteo_folder(const std::filesystem::path& folder, const CriteoRecipe& recipe) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) fail(ErrorKind::io, "synthesize", "cannot make the folder {}: {}", folder.string(), code.message());
  const bool marked = std::filesystem::exists(folder / kMarker, code);
  const bool made_here = marked && read_file(folder / kMarker).value_or("").find("criteo") != std::string::npos;
  for (const auto name : {kCriteoTrain, kCriteoTest}) {
    if (made_here || !std::filesystem::exists(folder / name, code)) continue;
    fail(ErrorKind::invalid_argument, "synthesize",
         "{} already holds a {}, which may be a real one (there is no {} beside it that names criteo); choose another "
         "folder or remove it",
         folder.string(), name, kMarker);
  }
  write_file_atomically(
      folder / kMarker,
      fmt::format("The criteo files in this folder are synthetic clicks made by Lockstep, not the real "
                  "data set.\nrows {} test {} scale {} seed {}\n",
                  recipe.rows, recipe.test_rows, recipe.scale, recipe.seed));
}

std::string json_number(double value) { return std::isnan(value) ? "null" : fmt::format("{}", value); }

}  // namespace

CriteoTeacher synthesize_criteo(const std::filesystem::path& out_dir, const CriteoRecipe& recipe) {
  check_recipe(recipe);
  prepare_criteo_folder(out_dir, recipe);
  const CriteoGenerator generator(recipe);
  const auto train = write_split(generator, out_dir / kCriteoTrain, Split::train, recipe.rows, recipe.seed);
  const auto test = write_split(generator, out_dir / kCriteoTest, Split::test, recipe.test_rows, recipe.seed);
  write_file_atomically(
      out_dir / kTeacher,
      fmt::format(
          "{{\n  \"auc\": {},\n  \"train_auc\": {},\n  \"rate\": {},\n  \"train_rate\": {},\n  \"rows\": {},\n  "
          "\"test_rows\": {},\n  \"scale\": {},\n  \"seed\": {}\n}}\n",
          json_number(test.auc), json_number(train.auc), test.rate, train.rate, recipe.rows, recipe.test_rows,
          recipe.scale, recipe.seed));
  return {test.auc, test.rate};
}

}  // namespace lockstep::data
