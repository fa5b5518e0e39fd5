// The data set of CSV tables: columns by header, statistics and vocabularies of the training file, one-hot features.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/files/mapped_file.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/data/files/text_files.h>
#include <lockstep/data/sampler.h>
#include <lockstep/samples/changed_dataset.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/samples/table_cells.h>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::samples {
namespace {

constexpr std::int64_t kMostFolds = 1000;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// A row by the columns of the options.
struct TableRow {
  int line = 0;
  std::vector<double> numbers;  // kMissing where the cell is empty
  std::vector<std::string> categories;
  std::vector<double> targets;
  std::string label;
  std::vector<std::pair<std::string, std::string>> keys;  // column and cell
};

struct TableFile {
  std::string name;
  std::vector<TableRow> rows;
  std::int64_t all = 0;  // including the rows that were left out
  bool has_targets = true;
};

class TableDataset final : public Dataset {
 public:
  /// `keys`: the keys of each row.
  TableDataset(Tensors tensors, std::vector<std::string> classes,
               std::vector<std::vector<std::pair<std::string, std::string>>> keys)
      : rows_(from_tensors(std::move(tensors))), classes_(std::move(classes)), keys_(std::move(keys)) {}

  std::int64_t size() const override { return rows_->size(); }
  Sample get(std::int64_t index, const Chance& chance) const override { return rows_->get(index, chance); }
  std::vector<std::string> classes() const override { return classes_; }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return keys_[static_cast<std::size_t>(index)];
  }

 private:
  std::shared_ptr<const Dataset> rows_;
  std::vector<std::string> classes_;
  std::vector<std::vector<std::pair<std::string, std::string>>> keys_;
};

template <typename... Args>
[[noreturn]] void bad_row(const std::string& file, int line, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::data, "csv", fmt::format(format, std::forward<Args>(args)...), {file, line});
}

struct TablePlaces {
  std::vector<std::size_t> numbers, categories, targets, keys;
};

/// Whether unusual properties of a file are logged.
enum class Says { all, nothing };

/// Reads the rows of a file, and requires numbers in number columns. With `needs_targets` false, the file may lack the
/// targets.
class TableReader {
 public:
  TableReader(const TableOptions& options, const std::string& file, std::string_view key, bool needs_targets = true,
              Says says = Says::all)
      : options_(options),
        needs_targets_(needs_targets),
        says_(says),
        file_(file, key),
        reader_(text_of(file_), file, separator_of(options), options.trim),
        cells_(options, file) {
    if (says_ == Says::all) data::check_encoding(text_of(file_), file);
    if (options.columns.empty()) {
      const auto header = reader_.next();
      if (!header) fail(ErrorKind::config, key, "{} is empty; its first line names the columns", file);
      header_ = header->cells;
    } else {
      header_ = options.columns;
      refuse_header(key);
    }
    places_ = {places_of(options.numbers, "data.numbers"),
               places_of(options.categories, "data.categories"),
               {},
               places_of(options.keys, "data.keys")};
    const auto is_there = [this](const std::string& name) { return place_of(name).has_value(); };
    if (needs_targets || std::ranges::all_of(options.targets, is_there)) {
      places_.targets = places_of(options.targets, "data.targets");
    }
  }

  TableFile read() {
    TableFile table{file_.name(), {}, 0, !places_.targets.empty()};
    data::BadItems bad(options_.on_error == "skip", "rows of " + file_.name());
    for (bool more = true; more;) {
      bad.try_to([&] {
        const auto cells = reader_.next();
        more = cells.has_value();
        if (more && !is_comment(*cells)) table.rows.push_back(row_of(*cells));
      });
    }
    table.all = bad.count() + static_cast<std::int64_t>(table.rows.size());
    if (says_ == Says::nothing) return table;
    bad.report(table.all);
    cells_.log_notes();
    return table;
  }

 private:
  static std::string_view text_of(const data::MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  static char separator_of(const TableOptions& options) {
    return options.separator == "\\t" ? '\t' : options.separator.front();
  }

  /// A comment, as in UCI's files; a table of one column has no comments.
  bool is_comment(const data::CsvRow& row) {
    if (row.cells.size() > 1 || header_.size() < 2 || !row.cells.front().starts_with('|')) return false;
    cells_.note_comment(row.line);
    return true;
  }

  /// Error(config) if the first row of a file without a header is a header.
  void refuse_header(std::string_view key) const {
    data::CsvReader reader(text_of(file_), file_.name(), separator_of(options_), options_.trim);
    std::optional<data::CsvRow> first;
    try {
      first = reader.next();
    } catch (const Error&) {
      return;  // a bad row, which is reported when it is read again
    }
    if (!first) fail(ErrorKind::config, key, "{} is empty", file_.name());
    if (first->cells != options_.columns) return;
    fail(ErrorKind::config, "data.columns",
         "is for files without a header, and the first line of {} is that header; "
         "remove the key, or the line",
         file_.name());
  }

  /// A possible reason why a file lacks a column.
  std::string advice_on_header() const {
    constexpr std::size_t kMostCells = 200;
    if (!options_.columns.empty()) return "; the columns are those of data.columns";
    if (header_.size() == 1) {
      for (const char c : {';', '\t', ',', '|'}) {
        if (header_.front().find(c) == std::string::npos) continue;
        return fmt::format("; its first line is '{}', is data.separator '{}'?", cut_text(header_.front()),
                           c == '\t' ? "\\t" : std::string(1, c));
      }
    }
    const bool has_numbers =
        std::ranges::any_of(header_, [this](const auto& cell) { return cells_.number_of(cell).has_value(); });
    if (!has_numbers) return "";
    return fmt::format("; its first line is '{}': where that is no header, name the columns in data.columns",
                       cut_text(fmt::format("{}", fmt::join(header_, ",")), kMostCells));
  }

  std::vector<std::size_t> places_of(const std::vector<std::string>& wanted, std::string_view key) const {
    std::vector<std::size_t> places;
    for (const auto& name : wanted) {
      const auto found = place_of(name);
      if (!found) {
        const auto meant = did_you_mean(name, header_);
        fail(ErrorKind::config, key, "{} has no column '{}'{}", file_.name(), cut_text(name),
             meant.empty() ? advice_on_header() : meant);
      }
      places.push_back(*found);
    }
    return places;
  }

  std::optional<std::size_t> place_of(const std::string& name) const {
    auto found = std::ranges::find(header_, name);
    // Older configurations may have names with blanks, from before cells were trimmed.
    if (found == header_.end() && options_.trim) found = std::ranges::find(header_, trimmed(name));
    if (found == header_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - header_.begin());
  }

  double number_of(const data::CsvRow& row, std::size_t place, bool may_be_missing) {
    const auto& cell = row.cells[place];
    if (const auto number = cells_.number_of(cell)) return *number;
    if (!cells_.is_missing_number(cell)) {
      bad_row(file_.name(), row.line, "column {} should be a number, not '{}'{}", cut_text(header_[place]),
              cut_text(cell), cells_.advice_on(cell));
    }
    if (!may_be_missing) {
      bad_row(file_.name(), row.line, "column {} is {}; data.fill gives the value of a missing number of data.numbers",
              cut_text(header_[place]), shown_missing(cell));
    }
    cells_.note_filled(header_[place], cell, row.line);
    return kMissing;
  }

  std::string category_of(const data::CsvRow& row, std::size_t place, const std::string& fill) {
    const auto& cell = row.cells[place];
    if (!cells_.is_missing_word(cell)) {
      cells_.note_word(header_[place], cell, row.line);
      return cell;
    }
    if (fill.empty()) {
      bad_row(file_.name(), row.line,
              "column {} is {}; data.fill_category gives the value of a missing category of data.categories",
              cut_text(header_[place]), shown_missing(cell));
    }
    cells_.note_filled(header_[place], cell, row.line);
    return fill;
  }

  static std::string shown_missing(const std::string& cell) {
    return cell.empty() ? "empty" : fmt::format("'{}', which stands for a missing value", cut_text(cell));
  }

  TableRow row_of(const data::CsvRow& row) {
    if (row.cells.size() != header_.size()) {
      bad_row(file_.name(), row.line, "the row has {} cells, and {} {}{}", row.cells.size(),
              options_.columns.empty() ? "the header" : "data.columns", header_.size(),
              row.cells.size() == 1 ? fmt::format("; data.separator is '{}'", options_.separator) : "");
    }
    TableRow out{row.line, {}, {}, {}, {}, {}};
    for (const auto place : places_.keys) out.keys.emplace_back(header_[place], row.cells[place]);
    for (const auto place : places_.numbers) out.numbers.push_back(number_of(row, place, !options_.fill.empty()));
    for (const auto place : places_.categories) {
      out.categories.push_back(category_of(row, place, options_.fill_category));
    }
    for (const auto place : places_.targets) {
      if (!needs_targets_) {
        out.label = row.cells[place];
        out.targets.push_back(cells_.number_of(row.cells[place]).value_or(kMissing));
      } else if (options_.target == "category") {
        out.label = category_of(row, place, "");
      } else {
        out.targets.push_back(number_of(row, place, false));
      }
    }
    return out;
  }

  const TableOptions& options_;
  bool needs_targets_;
  Says says_;
  data::MappedFile file_;
  data::CsvReader reader_;
  TableCells cells_;
  std::vector<std::string> header_;
  TablePlaces places_;
};

/// The spread of the values that are not missing.
ColumnSpread spread_of(const std::string& name, const std::vector<TableRow>& rows,
                       std::vector<double> TableRow::*columns, std::size_t column) {
  double sum = 0, squares = 0, count = 0;
  for (const auto& row : rows) {
    const double number = (row.*columns)[column];
    if (!std::isnan(number)) sum += number, ++count;
  }
  const double mean = count > 0 ? sum / count : 0;
  for (const auto& row : rows) {
    const double number = (row.*columns)[column];
    if (!std::isnan(number)) squares += (number - mean) * (number - mean);
  }
  const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
  return {name, mean, deviation > 0 ? deviation : 1};  // a column of equal numbers becomes zeros
}

TableStatistics statistics_of(const TableFile& train, const TableOptions& options) {
  TableStatistics out;
  out.standardizes = options.standardize;
  out.standardizes_targets = options.standardize_targets;
  const bool has_classes = options.target == "category";
  for (std::size_t i = 0; i < options.numbers.size(); ++i) {
    out.numbers.push_back(spread_of(options.numbers[i], train.rows, &TableRow::numbers, i));
  }
  for (std::size_t i = 0; !has_classes && i < options.targets.size(); ++i) {
    out.targets.push_back(spread_of(options.targets[i], train.rows, &TableRow::targets, i));
  }
  std::set<std::string> classes;
  std::vector<std::set<std::string>> words(options.categories.size());
  for (const auto& row : train.rows) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i].insert(row.categories[i]);
    if (has_classes) classes.insert(row.label);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    out.categories.push_back({options.categories[i], {words[i].begin(), words[i].end()}});
  }
  out.classes.assign(classes.begin(), classes.end());
  return out;
}

/// The index of a word; nullopt when the training data does not have it. Vocabularies are sorted.
std::optional<std::size_t> place_in(const std::vector<std::string>& vocabulary, const std::string& word) {
  const auto found = std::ranges::lower_bound(vocabulary, word);
  if (found == vocabulary.end() || *found != word) return std::nullopt;
  return static_cast<std::size_t>(found - vocabulary.begin());
}

/// "Paris, Rome", and the number of further words.
std::string some_of(const std::vector<std::string>& words) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < words.size() && i < kMost; ++i) shown.push_back(cut_text(words[i], 40));
  const auto more = words.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<float> features_of(const TableRow& row, const TableOptions& options, const TableStatistics& of,
                               const std::string& file) {
  std::vector<float> out;
  const auto fill = parse_number(options.fill);  // else the mean
  for (std::size_t i = 0; i < row.numbers.size(); ++i) {
    const auto& [column, mean, deviation] = of.numbers[i];
    const double number = std::isnan(row.numbers[i]) ? fill.value_or(mean) : row.numbers[i];
    out.push_back(static_cast<float>(options.standardize ? (number - mean) / deviation : number));
  }
  for (std::size_t i = 0; i < row.categories.size(); ++i) {
    const auto& words = of.categories[i].words;
    const auto place = place_in(words, row.categories[i]);
    if (!place && options.unknown == "fail") {
      bad_row(file, row.line,
              "column {} has '{}', which was not there in training{}. data.unknown=zeros takes such words for "
              "none of these",
              cut_text(options.categories[i]), cut_text(row.categories[i]),
              did_you_mean(row.categories[i], words, fmt::format("there were {}", some_of(words))));
    }
    const auto first = out.size();
    out.resize(first + words.size());
    if (place) out[first + *place] = 1;
  }
  return out;
}

/// Removes the rows of options.fold, and returns them in their order. The choice is a random permutation that depends
/// only on the number of rows: files are often sorted, so a part must not be a contiguous range.
std::vector<TableRow> take_fold(std::vector<TableRow>& rows, const TableOptions& options) {
  if (std::ssize(rows) < options.folds) {
    fail(ErrorKind::config, "data.folds", "is {}, and the training file has {} rows", options.folds, rows.size());
  }
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  data::RandomStream random(0, data::RandomPurpose::order, {static_cast<std::uint64_t>(rows.size())});
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  std::vector<bool> is_held_out(rows.size());
  const auto folds = static_cast<std::size_t>(options.folds), fold = static_cast<std::size_t>(options.fold);
  for (std::size_t place = fold; place < order.size(); place += folds) is_held_out[order[place]] = true;
  std::vector<TableRow> held_out, kept;
  for (std::size_t i = 0; i < rows.size(); ++i) (is_held_out[i] ? held_out : kept).push_back(std::move(rows[i]));
  rows = std::move(kept);
  return held_out;
}

void require_each_once(const std::vector<std::string>& columns, std::string_view key) {
  std::set<std::string_view> seen;
  for (const auto& column : columns) {
    if (seen.insert(column).second) continue;
    fail(ErrorKind::config, key, "names the column '{}' twice; remove one", cut_text(column));
  }
}

void check_table(const TableOptions& options) {
  require_each_once(options.columns, "data.columns");
  require_each_once(options.numbers, "data.numbers");
  require_each_once(options.categories, "data.categories");
  require_each_once(options.targets, "data.targets");
  require_each_once(options.keys, "data.keys");
  if (options.targets.empty()) fail(ErrorKind::config, "data.targets", "is empty; name the columns to predict");
  if (options.numbers.empty() && options.categories.empty()) {
    fail(ErrorKind::config, "data.numbers", "and data.categories are empty; name the columns to predict from");
  }
  if (options.target == "category" && options.targets.size() != 1) {
    fail(ErrorKind::config, "data.targets", "has {} columns, and data.target category takes one",
         options.targets.size());
  }
  if (options.target == "category" && options.standardize_targets) {
    fail(ErrorKind::config, "data.standardize_targets", "is for numbers, and data.target is category; remove one");
  }
  if (options.sampling == "balanced" && options.target != "category") {
    fail(ErrorKind::config, "data.sampling", "balanced is for classes, and data.target is {}; remove one",
         options.target);
  }
  if (options.separator.size() != 1 && options.separator != "\\t") {
    fail(ErrorKind::config, "data.separator", "is one character, or \\t, not '{}'", cut_text(options.separator));
  }
  if (options.folds > 0 && !options.eval.empty()) {
    fail(ErrorKind::config, "data.folds",
         "takes the rows of evaluation from data.train, and data.eval is {}; remove "
         "one",
         options.eval);
  }
  if (options.folds == 1) {
    fail(ErrorKind::config, "data.folds", "is 1, which leaves nothing to train on; give 2 or more, or 0 for none");
  }
  if (options.fold > 0 && options.fold >= options.folds) {
    fail(ErrorKind::config, "data.fold", "is {}, and counts from 0 to data.folds - 1; data.folds is {}", options.fold,
         options.folds);
  }
  if (!options.fill.empty() && options.fill != "mean" && !parse_number(options.fill)) {
    fail(ErrorKind::config, "data.fill", "is empty, mean or a number, not '{}'", cut_text(options.fill));
  }
}

}  // namespace

void describe(ConfigFields& fields, TableOptions& options) {
  fields.field("train", options.train, required(a_path()), "CSV file of training; its first line names the columns");
  fields.field("eval", options.eval, a_path(), "the same for evaluation; empty: no evaluation");
  fields.field("separator", options.separator, anything(), "between cells: one character, or \\t");
  fields.field("columns", options.columns, anything(),
               "names of all columns, where files have no header; empty: their first lines name them");
  fields.field("trim", options.trim, anything(), "leave out blanks around cells, outside quotes");
  fields.field("decimal", options.decimal, one_of({".", ","}), "what separates the decimals of a number");
  fields.field("missing", options.missing, anything(),
               "words for a missing value, in numbers and categories; empty: in numbers ?, NA, NaN, null and the like, "
               "in categories none");
  fields.field("numbers", options.numbers, anything(), "columns of numbers to predict from");
  fields.field("categories", options.categories, anything(),
               "columns of words to predict from; each word of the training file becomes a feature of 0 or 1");
  fields.field("targets", options.targets, anything(), "columns to predict; at least one");
  fields.field("target", options.target, one_of({"numbers", "category"}),
               "what those are: numbers, or one column with the name of a class");
  fields.field("standardize", options.standardize, anything(),
               "subtract from numbers the mean of the training file, and divide by its standard deviation");
  fields.field("standardize_targets", options.standardize_targets, anything(),
               "the same for targets that are numbers; predictions and metrics stay in the file's unit");
  fields.field("fill", options.fill, anything(), "a missing number: mean (of training), a number, or empty: an error");
  fields.field("fill_category", options.fill_category, anything(), "a missing category; empty: an error");
  fields.field("unknown", options.unknown, one_of({"fail", "zeros"}),
               "a category that the training file does not have: an error, or all its features 0");
  describe_sampling(fields, options.sampling);
  fields.field("folds", options.folds, between(0, kMostFolds),
               "equal parts of the training file, of which one evaluates and the others train; 0: data.eval evaluates");
  fields.field("fold", options.fold, between(0, kMostFolds - 1), "which part evaluates, from 0");
  data::describe_on_error(fields, options.on_error);
  fields.field("keys", options.keys, anything(),
               "columns, such as a customer's number, that lockstep predict writes beside what is predicted of a row");
}

TableStatistics learn_table(const TableOptions& options) {
  check_table(options);
  const data::BadItemsTaken passed_over;
  auto table = TableReader(options, options.train, "data.train", /*needs_targets=*/true, Says::nothing).read();
  if (options.folds > 0) take_fold(table.rows, options);
  return statistics_of(table, options);
}

Batch table_example(const TableOptions& options) {
  if (!options.statistics) return load_table(options, data::Split::train)->example();
  check_table(options);
  require_columns_of(*options.statistics, options);
  auto width = static_cast<std::int64_t>(options.numbers.size());
  for (const auto& each : options.statistics->categories) width += std::ssize(each.words);
  const auto count = static_cast<std::int64_t>(options.targets.size());
  Tensors tensors{{kFeatures, at::zeros({1, width})}};
  if (options.target == "category") {
    tensors.emplace(kLabels, at::zeros({1}, at::kLong));
  } else {
    tensors.emplace(kTargets, at::zeros({1, count}));
  }
  if (options.standardize_targets) {
    tensors.emplace(kTargetMean, at::zeros({1, count}));
    tensors.emplace(kTargetDeviation, at::ones({1, count}));
  }
  return from_tensors(std::move(tensors))->example();
}

std::shared_ptr<const Dataset> load_table(const TableOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  const bool needs_targets = trains || options.needs_targets;
  check_table(options);
  if (options.statistics) require_columns_of(*options.statistics, options);
  if (!trains && options.eval.empty() && options.folds == 0) return nullptr;
  const bool has_file = !trains && options.folds == 0;
  TableFile table;
  auto statistics = options.statistics;
  if (!has_file || !statistics) {
    table = TableReader(options, options.train, "data.train").read();
    std::vector<TableRow> held_out;
    if (options.folds > 0) held_out = take_fold(table.rows, options);
    if (!statistics) statistics = std::make_shared<const TableStatistics>(statistics_of(table, options));
    if (!trains && options.folds > 0) table.rows = std::move(held_out);
  }
  if (has_file) table = TableReader(options, options.eval, "data.eval", needs_targets).read();

  const auto& classes = statistics->classes;
  std::vector<at::Tensor> features, targets;
  std::vector<std::int64_t> labels;
  std::vector<std::vector<std::pair<std::string, std::string>>> keys;
  std::vector<int> lines;
  data::BadItems bad(options.on_error == "skip", "rows of " + table.name);
  TableCells notes(options, table.name);
  const auto label_of = [&](const TableRow& row) -> std::int64_t {
    constexpr std::int64_t kUnknown = -1;
    auto label = place_in(classes, row.label);
    if (!label) {
      label = class_but_for_a_dot(classes, row.label);
      if (label) notes.note_dot(options.targets.front(), row.label, row.line);
    }
    if (label) return static_cast<std::int64_t>(*label);
    if (!needs_targets) return kUnknown;
    bad_row(table.name, row.line, "the class '{}' of column {} was not there in training{}", cut_text(row.label),
            cut_text(options.targets.front()),
            did_you_mean(row.label, classes, fmt::format("there were {}", some_of(classes))));
  };
  for (const auto& row : table.rows) {
    bad.try_to([&] {
      const auto values = features_of(row, options, *statistics, table.name);
      if (table.has_targets && options.target == "category") {
        labels.push_back(label_of(row));
      } else if (table.has_targets) {
        targets.push_back(at::tensor(row.targets, at::kFloat));
      }
      features.push_back(at::tensor(values, at::kFloat));
      keys.push_back(row.keys);
      lines.push_back(row.line);
    });
  }
  // Samples are counted without the rows that were left out, so the number of a sample does not lead to its row.
  if (static_cast<std::int64_t>(lines.size()) < table.all) {
    for (std::size_t i = 0; i < lines.size(); ++i) keys[i].emplace(keys[i].begin(), "line", std::to_string(lines[i]));
  }
  bad.report(table.all);
  notes.log_notes();
  if (features.empty()) {
    fail(ErrorKind::config, trains ? "data.train" : "data.eval", "{} has no rows that can be used", table.name);
  }
  Tensors tensors{{kFeatures, at::stack(features)}};
  if (!labels.empty()) tensors.emplace(kLabels, at::tensor(labels, at::kLong));
  if (!targets.empty()) tensors.emplace(kTargets, at::stack(targets));
  if (options.standardize_targets) {
    std::vector<double> means, deviations;
    for (const auto& each : statistics->targets) means.push_back(each.mean), deviations.push_back(each.deviation);
    const auto rows = static_cast<std::int64_t>(features.size());
    tensors.emplace(kTargetMean, at::tensor(means, at::kFloat).expand({rows, -1}));
    tensors.emplace(kTargetDeviation, at::tensor(deviations, at::kFloat).expand({rows, -1}));
  }
  return with_sampling(std::make_shared<TableDataset>(std::move(tensors), classes, std::move(keys)), options.sampling,
                       split, labels);
}

}  // namespace lockstep::samples
