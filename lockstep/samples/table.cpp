// The data set of CSV tables: columns by header, statistics and vocabularies of the training file, one-hot features.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/data/files/bad_items.h>
#include <lockstep/data/files/csv.h>
#include <lockstep/data/files/mapped_file.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/table.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::samples {
namespace {

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
  std::int64_t all = 0;  // with those that were left out
};

/// What is learnt from the training file.
struct Statistics {
  std::vector<double> means;
  std::vector<double> deviations;
  std::vector<std::vector<std::string>> vocabularies;
  std::vector<std::string> classes;
};

class TableDataset final : public Dataset {
 public:
  /// `keys`: of each row.
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

/// Reads the rows of a file, of cells that are numbers where they should be.
class TableReader {
 public:
  TableReader(const TableOptions& options, const std::string& file, std::string_view key)
      : options_(options),
        file_(file, key),
        reader_({reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()}, file,
                options.separator == "\\t" ? '\t' : options.separator.front()) {
    const auto header = reader_.next();
    if (!header) fail(ErrorKind::config, key, "{} is empty; its first line names the columns", file);
    header_ = header->cells;
    places_ = {places_of(options.numbers, "data.numbers"), places_of(options.categories, "data.categories"),
               places_of(options.targets, "data.targets"), places_of(options.keys, "data.keys")};
  }

  TableFile read() {
    TableFile table{file_.name(), {}, 0};
    data::BadItems bad(options_.on_error == "skip", "rows of " + file_.name());
    for (bool more = true; more;) {
      bad.try_to([&] {
        const auto cells = reader_.next();
        more = cells.has_value();
        if (more) table.rows.push_back(row_of(*cells));
      });
    }
    table.all = bad.count() + static_cast<std::int64_t>(table.rows.size());
    bad.report(table.all);
    return table;
  }

 private:
  std::vector<std::size_t> places_of(const std::vector<std::string>& wanted, std::string_view key) const {
    std::vector<std::size_t> places;
    for (const auto& name : wanted) {
      const auto found = std::ranges::find(header_, name);
      if (found == header_.end()) {
        fail(ErrorKind::config, key, "{} has no column '{}'{}", file_.name(), name, did_you_mean(name, header_));
      }
      places.push_back(static_cast<std::size_t>(found - header_.begin()));
    }
    return places;
  }

  double number_of(const data::CsvRow& row, std::size_t place, bool may_be_missing) const {
    const auto& cell = row.cells[place];
    if (cell.empty() && may_be_missing) return kMissing;
    if (cell.empty()) {
      bad_row(file_.name(), row.line, "column {} is empty; data.fill says what a missing number of data.numbers is",
              header_[place]);
    }
    const auto number = parse_number(cell);
    if (!number)
      bad_row(file_.name(), row.line, "column {} should be a number, not '{}'", header_[place], cut_text(cell));
    return *number;
  }

  std::string category_of(const data::CsvRow& row, std::size_t place, const std::string& fill) const {
    const auto& cell = row.cells[place];
    if (!cell.empty()) return cell;
    if (fill.empty()) {
      bad_row(file_.name(), row.line,
              "column {} is empty; data.fill_category says what a missing category of data.categories is",
              header_[place]);
    }
    return fill;
  }

  TableRow row_of(const data::CsvRow& row) const {
    if (row.cells.size() != header_.size()) {
      bad_row(file_.name(), row.line, "the row has {} cells, and the header {}", row.cells.size(), header_.size());
    }
    TableRow out{row.line, {}, {}, {}, {}, {}};
    for (const auto place : places_.keys) out.keys.emplace_back(header_[place], row.cells[place]);
    for (const auto place : places_.numbers) out.numbers.push_back(number_of(row, place, !options_.fill.empty()));
    for (const auto place : places_.categories) {
      out.categories.push_back(category_of(row, place, options_.fill_category));
    }
    for (const auto place : places_.targets) {
      if (options_.target == "category") {
        out.label = category_of(row, place, "");
      } else {
        out.targets.push_back(number_of(row, place, false));
      }
    }
    return out;
  }

  const TableOptions& options_;
  data::MappedFile file_;
  data::CsvReader reader_;
  std::vector<std::string> header_;
  TablePlaces places_;
};

Statistics statistics_of(const TableFile& train, const TableOptions& options) {
  Statistics out;
  for (std::size_t column = 0; column < options.numbers.size(); ++column) {
    double sum = 0, squares = 0, count = 0;
    for (const auto& row : train.rows) {
      if (!std::isnan(row.numbers[column])) sum += row.numbers[column], ++count;
    }
    const double mean = count > 0 ? sum / count : 0;
    for (const auto& row : train.rows) {
      if (!std::isnan(row.numbers[column])) squares += (row.numbers[column] - mean) * (row.numbers[column] - mean);
    }
    const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
    out.means.push_back(mean);
    out.deviations.push_back(deviation > 0 ? deviation : 1);  // a column of equal numbers becomes zeros
  }
  std::set<std::string> classes;
  std::vector<std::set<std::string>> words(options.categories.size());
  for (const auto& row : train.rows) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i].insert(row.categories[i]);
    if (options.target == "category") classes.insert(row.label);
  }
  for (const auto& each : words) out.vocabularies.emplace_back(each.begin(), each.end());
  out.classes.assign(classes.begin(), classes.end());
  return out;
}

/// The place of a word; nullopt when training does not have it. Vocabularies are sorted.
std::optional<std::size_t> place_in(const std::vector<std::string>& vocabulary, const std::string& word) {
  const auto found = std::ranges::lower_bound(vocabulary, word);
  if (found == vocabulary.end() || *found != word) return std::nullopt;
  return static_cast<std::size_t>(found - vocabulary.begin());
}

std::vector<float> features_of(const TableRow& row, const TableOptions& options, const Statistics& of,
                               const std::string& file) {
  std::vector<float> out;
  const auto fill = parse_number(options.fill);  // else the mean
  for (std::size_t i = 0; i < row.numbers.size(); ++i) {
    const double number = std::isnan(row.numbers[i]) ? fill.value_or(of.means[i]) : row.numbers[i];
    out.push_back(static_cast<float>(options.standardize ? (number - of.means[i]) / of.deviations[i] : number));
  }
  for (std::size_t i = 0; i < row.categories.size(); ++i) {
    const auto place = place_in(of.vocabularies[i], row.categories[i]);
    if (!place && options.unknown == "fail") {
      bad_row(file, row.line, "column {} has '{}', which the training file does not have{}; data.unknown can be zeros",
              options.categories[i], cut_text(row.categories[i]), did_you_mean(row.categories[i], of.vocabularies[i]));
    }
    const auto first = out.size();
    out.resize(first + of.vocabularies[i].size());
    if (place) out[first + *place] = 1;
  }
  return out;
}

void require_each_once(const std::vector<std::string>& columns, std::string_view key) {
  std::set<std::string_view> seen;
  for (const auto& column : columns) {
    if (seen.insert(column).second) continue;
    fail(ErrorKind::config, key, "names the column '{}' twice; remove one", column);
  }
}

void check_table(const TableOptions& options) {
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
  if (options.separator.size() != 1 && options.separator != "\\t") {
    fail(ErrorKind::config, "data.separator", "is one character, or \\t, not '{}'", options.separator);
  }
  if (!options.fill.empty() && options.fill != "mean" && !parse_number(options.fill)) {
    fail(ErrorKind::config, "data.fill", "is empty, mean or a number, not '{}'", options.fill);
  }
}

}  // namespace

void describe(ConfigFields& fields, TableOptions& options) {
  fields.field("train", options.train, required(a_path()), "CSV file of training; its first line names the columns");
  fields.field("eval", options.eval, a_path(), "the same for evaluation; empty: no evaluation");
  fields.field("separator", options.separator, anything(), "between cells: one character, or \\t");
  fields.field("numbers", options.numbers, anything(), "columns of numbers to predict from");
  fields.field("categories", options.categories, anything(),
               "columns of words to predict from; each word of the training file becomes a feature of 0 or 1");
  fields.field("targets", options.targets, anything(), "columns to predict; at least one");
  fields.field("target", options.target, one_of({"numbers", "category"}),
               "what those are: numbers, or one column with the name of a class");
  fields.field("standardize", options.standardize, anything(),
               "subtract from numbers the mean of the training file, and divide by its standard deviation");
  fields.field("fill", options.fill, anything(), "a missing number: mean (of training), a number, or empty: an error");
  fields.field("fill_category", options.fill_category, anything(), "a missing category; empty: an error");
  fields.field("unknown", options.unknown, one_of({"fail", "zeros"}),
               "a category that the training file does not have: an error, or all its features 0");
  data::describe_on_error(fields, options.on_error);
  fields.field("keys", options.keys, anything(),
               "columns, such as a customer's number, that lockstep predict writes beside what is predicted of a row");
}

std::shared_ptr<const Dataset> load_table(const TableOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  if (!trains && options.eval.empty()) return nullptr;
  check_table(options);
  auto table = TableReader(options, options.train, "data.train").read();
  const auto statistics = statistics_of(table, options);
  if (!trains) table = TableReader(options, options.eval, "data.eval").read();

  std::vector<at::Tensor> features, targets;
  std::vector<std::int64_t> labels;
  std::vector<std::vector<std::pair<std::string, std::string>>> keys;
  data::BadItems bad(options.on_error == "skip", "rows of " + table.name);
  for (const auto& row : table.rows) {
    bad.try_to([&] {
      const auto values = features_of(row, options, statistics, table.name);
      if (options.target == "category") {
        const auto label = place_in(statistics.classes, row.label);
        if (!label) {
          bad_row(table.name, row.line, "the class '{}' of column {} is not in the training file", cut_text(row.label),
                  options.targets.front());
        }
        labels.push_back(static_cast<std::int64_t>(*label));
      } else {
        targets.push_back(at::tensor(row.targets, at::kFloat));
      }
      features.push_back(at::tensor(values, at::kFloat));
      keys.push_back(row.keys);
    });
  }
  bad.report(table.all);
  if (features.empty()) {
    fail(ErrorKind::config, trains ? "data.train" : "data.eval", "{} has no rows that can be used", table.name);
  }
  Tensors tensors{{kFeatures, at::stack(features)}};
  if (options.target == "category") {
    tensors.emplace(kLabels, at::tensor(labels, at::kLong));
  } else {
    tensors.emplace(kTargets, at::stack(targets));
  }
  return std::make_shared<TableDataset>(std::move(tensors), statistics.classes, std::move(keys));
}

}  // namespace lockstep::samples
