// CSV files as data sets.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/table.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using data::Split;
using samples::Chance;
using testing::ElementsAre;

class Tables : public testing::Test {
 protected:
  samples::TableOptions options(const std::string& train, const std::string& eval = "") const {
    const auto write = [&](const char* name, const std::string& text) {
      const auto file = (folder_.path() / name).string();
      std::ofstream(file) << text;
      return file;
    };
    samples::TableOptions out;
    out.train = write("train.csv", train);
    if (!eval.empty()) out.eval = write("eval.csv", eval);
    out.numbers = {"area", "rooms"};
    out.categories = {"city"};
    out.targets = {"price"};
    return out;
  }

  static std::vector<float> features_of(const samples::Dataset& dataset, std::int64_t index) {
    const auto row = dataset.get(index, Chance(0, 0, index)).tensors.at(samples::kFeatures).contiguous();
    return {row.data_ptr<float>(), row.data_ptr<float>() + row.numel()};
  }

  TemporaryFolder folder_;
};

constexpr const char* kTrain = "price,city,area,rooms,notes\n10,Rome,1,2,x\n20,Paris,3,2,\n30,Rome,5,2,y\n";

TEST_F(Tables, NumbersAreStandardizedByTrainingAndCategoriesBecomeZerosAndOnes) {
  const auto both = options(kTrain, "city,area,price,rooms\nParis,3,7.5,4\n");
  const auto train = samples::load_table(both, Split::train);
  ASSERT_EQ(train->size(), 3);
  const float deviation = std::sqrt(8.0F / 3);
  EXPECT_THAT(features_of(*train, 0), ElementsAre(testing::FloatNear(-2 / deviation, 1e-6F), 0, 0, 1));
  EXPECT_THAT(features_of(*train, 1), ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(train->get(2, Chance(0, 0, 2)).tensors.at(samples::kTargets).item<float>(), 30);
  const auto eval = samples::load_table(both, Split::test);
  ASSERT_EQ(eval->size(), 1);
  EXPECT_THAT(features_of(*eval, 0), ElementsAre(0, 2, 1, 0));  // by training's numbers: rooms are all 2 there
  auto plain = both;
  plain.standardize = false;
  EXPECT_THAT(features_of(*samples::load_table(plain, Split::train), 2), ElementsAre(5, 2, 0, 1));
  EXPECT_EQ(samples::load_table(options(kTrain), Split::test), nullptr);
}

TEST_F(Tables, ACategoryAsTargetGivesLabels) {
  auto of = options(kTrain);
  of.categories = {};
  of.targets = {"city"};
  of.target = "category";
  const auto train = samples::load_table(of, Split::train);
  EXPECT_THAT(train->classes(), ElementsAre("Paris", "Rome"));
  EXPECT_EQ(train->get(0, Chance(0, 0, 0)).tensors.at(samples::kLabels).item<std::int64_t>(), 1);
}

TEST_F(Tables, WhatIsMissingIsAnErrorOrFilled) {
  const std::string holes = "price,city,area,rooms\n1,Rome,,2\n2,,3,2\n3,Rome,5,2\n";
  auto of = options(holes);
  expect_error(ErrorKind::data, {"train.csv:2", "area", "data.fill"}, [&] { samples::load_table(of, Split::train); });
  of.fill = "mean";
  expect_error(ErrorKind::data, {"train.csv:3", "city", "data.fill_category"},
               [&] { samples::load_table(of, Split::train); });
  of.fill_category = "nowhere";
  const auto filled = samples::load_table(of, Split::train);
  EXPECT_THAT(features_of(*filled, 0), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(features_of(*filled, 1), ElementsAre(-1, 0, 0, 1));  // of 3 and 5
  of.fill = "7";
  EXPECT_THAT(features_of(*samples::load_table(of, Split::train), 0), ElementsAre(3, 0, 1, 0));
}

TEST_F(Tables, AWrongRowIsNamedByFileAndLineOrLeftOut) {
  const auto fails = [&](const std::string& text, std::initializer_list<std::string_view> words,
                         const std::string& eval = "") {
    const auto of = options(text, eval);
    expect_error(ErrorKind::data, words, [&] { samples::load_table(of, eval.empty() ? Split::train : Split::test); });
  };
  const std::string header = "price,city,area,rooms\n";
  fails(header + "1,Rome,1\n", {"train.csv:2", "3 cells", "header 4"});
  fails(header + "1,Rome,1,2\n1,Rome,big,2\n", {"train.csv:3", "area", "'big'"});
  fails(header + "1,Rome,nan,2\n", {"train.csv:2", "'nan'"});
  fails(header + ",Rome,1,2\n", {"train.csv:2", "price"});
  fails(header + "1,\"Rome,1,2\n", {"train.csv:2", "not closed"});
  fails(kTrain, {"eval.csv:2", "'Rom'", "did you mean 'Rome'", "data.unknown"}, header + "1,Rom,1,2\n");
  auto of =
      options(header + "1,Rome,1,2\n1,Rome,1\n2,Rome,x,2\n3,Rome,3,2\n\"open", header + "1,Rom,1,2\n1,Rome,1,2\n");
  of.on_error = "skip";
  EXPECT_EQ(samples::load_table(of, Split::train)->size(), 2);
  EXPECT_EQ(samples::load_table(of, Split::test)->size(), 1);
  of.unknown = "zeros";
  const auto zeros = samples::load_table(of, Split::test);
  ASSERT_EQ(zeros->size(), 2);
  EXPECT_EQ(features_of(*zeros, 0)[2], 0);
}

TEST_F(Tables, FilesOfUciAreReadAsTheyAre) {
  // As adult.data and adult.test have them: no header, a blank behind each comma, ? for what is missing, a dot.
  auto of =
      options("39, State-gov, 77516, <=50K\n50, ?, 83311, >50K\n\n", "|1x3 Cross validator\n25, ?, +226802, <=50K.\n");
  of.columns = {"age", "workclass", "weight", "income"};
  of.numbers = {"age", "weight"};
  of.categories = {"workclass"};
  of.targets = {"income"};
  of.target = "category";
  of.standardize = false;
  const auto train = samples::load_table(of, Split::train);
  EXPECT_THAT(train->classes(), ElementsAre("<=50K", ">50K"));
  EXPECT_THAT(features_of(*train, 0), ElementsAre(39, 77516, 0, 1)) << "? is a word, before State-gov";
  const auto eval = samples::load_table(of, Split::test);
  ASSERT_EQ(eval->size(), 1);
  EXPECT_THAT(features_of(*eval, 0), ElementsAre(25, 226802, 1, 0));
  EXPECT_EQ(eval->get(0, Chance(0, 0, 0)).tensors.at(samples::kLabels).item<std::int64_t>(), 0);
  of.missing = {"?"};
  expect_error(ErrorKind::data, {"train.csv:2", "workclass", "'?'", "data.fill_category"},
               [&] { samples::load_table(of, Split::train); });
  of.fill_category = "State-gov";
  EXPECT_THAT(features_of(*samples::load_table(of, Split::train), 1), ElementsAre(50, 83311, 1));
}

TEST_F(Tables, WordsForMissingNumbersAreFilled) {
  auto of = options("price,city,area,rooms\n1,Rome, NA ,2\n2,Rome,3,null\n3,Rome,5,\"?\"\n4,None,-,-1\n");
  expect_error(ErrorKind::data, {"train.csv:2", "area", "'NA'", "data.fill"},
               [&] { samples::load_table(of, Split::train); });
  of.fill = "7";
  of.standardize = false;
  const auto filled = samples::load_table(of, Split::train);
  EXPECT_THAT(features_of(*filled, 0), ElementsAre(7, 2, 0, 1));
  EXPECT_THAT(features_of(*filled, 1), ElementsAre(3, 7, 0, 1));
  EXPECT_THAT(features_of(*filled, 2), ElementsAre(5, 7, 0, 1));
  EXPECT_THAT(features_of(*filled, 3), ElementsAre(7, -1, 1, 0)) << "a word is a word: None may be a name";
  of.missing = {"-1"};
  expect_error(ErrorKind::data, {"train.csv:2", "area", "'NA'", "data.missing"},
               [&] { samples::load_table(of, Split::train); });
}

TEST_F(Tables, NumbersAreWrittenInTwoWays) {
  auto of = options("price;city;area;rooms\n1,5;Rome;+2,25;1e1\n");
  of.separator = ";";
  of.standardize = false;
  expect_error(ErrorKind::data, {"train.csv:2", "area", "'+2,25'", "data.decimal"},
               [&] { samples::load_table(of, Split::train); });
  of.decimal = ",";
  const auto table = samples::load_table(of, Split::train);
  EXPECT_THAT(features_of(*table, 0), ElementsAre(2.25, 10, 1));
  of = options("price,city,area,rooms\n1,Rome,\"1.234,5\",2\n");
  of.decimal = ",";
  expect_error(ErrorKind::data, {"train.csv:2", "'1.234,5'"}, [&] { samples::load_table(of, Split::train); });
}

TEST_F(Tables, BlanksAroundCellsAreNoPartOfThem) {
  auto of = options("price , city,\tarea, rooms\n1, \" Rome, old\" , 2 ,3\n  \n1,\" Rome, old\",2,3\n");
  of.standardize = false;
  const auto table = samples::load_table(of, Split::train);
  ASSERT_EQ(table->size(), 2);
  EXPECT_THAT(features_of(*table, 0), ElementsAre(2, 3, 1)) << "one word, with the blank in the quotes";
  of.numbers = {" area", " rooms"};
  EXPECT_EQ(samples::load_table(of, Split::train)->size(), 2) << "as the names had to be written before";
  of.trim = false;
  expect_error(ErrorKind::config, {"data.numbers", "' area'"}, [&] { samples::load_table(of, Split::train); });
}

TEST_F(Tables, AFileOfAnotherFormIsNamed) {
  const auto fails = [&](ErrorKind kind, const std::string& text, std::initializer_list<std::string_view> words,
                         const std::function<void(samples::TableOptions&)>& change = {}) {
    auto of = options(text);
    if (change) change(of);
    expect_error(kind, words, [&] { samples::load_table(of, Split::train); });
  };
  fails(ErrorKind::config, "price;city;area;rooms\n1;Rome;2;3\n", {"data.numbers", "data.separator ';'"});
  fails(ErrorKind::config, "1,Rome,2,3\n", {"data.numbers", "'1,Rome,2,3'", "data.columns"});
  fails(ErrorKind::config, kTrain, {"data.columns", "header"}, [](auto& of) {
    of.columns = {"price", "city", "area", "rooms", "notes"};
  });
  fails(ErrorKind::data, "1,Rome,2\n", {"train.csv:1", "3 cells", "data.columns 4"}, [](auto& of) {
    of.columns = {"price", "city", "area", "rooms"};
  });
  fails(ErrorKind::data,
        std::string("\xff\xfe"
                    "a\0,\0",
                    6),
        {"train.csv", "UTF-16", "iconv"});
  std::string wide;
  for (const char c : std::string(kTrain)) wide += {c, '\0'};
  fails(ErrorKind::data, wide, {"train.csv", "UTF-16", "iconv -f UTF-16LE"});
}

TEST_F(Tables, TargetsCanBeStandardized) {
  auto of = options(kTrain);
  of.standardize_targets = true;
  const auto sample = samples::load_table(of, Split::train)->get(2, Chance(0, 0, 2));
  EXPECT_EQ(sample.tensors.at(samples::kTargets).item<float>(), 30) << "as the file has it";
  EXPECT_FLOAT_EQ(sample.tensors.at(samples::kTargetMean).item<float>(), 20);
  EXPECT_FLOAT_EQ(sample.tensors.at(samples::kTargetDeviation).item<float>(), std::sqrt(200.0F / 3));
  of.target = "category";
  expect_error(ErrorKind::config, {"data.standardize_targets", "data.target"},
               [&] { samples::load_table(of, Split::train); });
}

// What a run has learned does not change with the file.
TEST_F(Tables, StatisticsThatWereKeptTakeThePlaceOfTheFiles) {
  const std::string eval = "price,city,area,rooms\n1,Paris,4,2\n";
  auto before = options(kTrain, eval);
  before.standardize_targets = true;
  const auto row = features_of(*samples::load_table(before, Split::test), 0);
  const auto kept = samples::text_of(samples::learn_table(before));
  auto after = options(std::string(kTrain) + "9000,Madrid,99,7,\n", eval);
  after.standardize_targets = true;
  EXPECT_NE(features_of(*samples::load_table(after, Split::test), 0), row);
  const auto learned = samples::table_statistics_in(kept, "table.json");
  EXPECT_THAT(samples::difference_between(learned, samples::learn_table(after)), testing::HasSubstr("column area"));
  after.statistics = std::make_shared<const samples::TableStatistics>(learned);
  expect_error(ErrorKind::data, {"train.csv:5", "'Madrid'", "there were Paris, Rome"},
               [&] { samples::load_table(after, Split::train); });
  EXPECT_EQ(samples::table_example(after).tensors.at(samples::kFeatures).size(1), 4);
  std::filesystem::remove(folder_.path() / "train.csv");
  const auto test = samples::load_table(after, Split::test);
  EXPECT_EQ(features_of(*test, 0), row) << "to the last bit, without the training file";
  EXPECT_FLOAT_EQ(test->get(0, Chance(0, 0, 0)).tensors.at(samples::kTargetMean).item<float>(), 20);
  const auto refused = [&](std::initializer_list<std::string_view> words,
                           const std::function<void(samples::TableOptions&)>& change) {
    auto of = after;
    change(of);
    expect_error(ErrorKind::config, words, [&] { samples::load_table(of, Split::test); });
  };
  refused({"data.numbers", "is [area]", "trained with [area, rooms]"}, [](auto& of) { of.numbers = {"area"}; });
  refused({"data.categories", "trained with [city]"}, [](auto& of) { of.categories = {}; });
  refused({"data.standardize", "is false", "trained with true"}, [](auto& of) { of.standardize = false; });
  refused({"data.standardize_targets"}, [](auto& of) { of.standardize_targets = false; });
}

TEST_F(Tables, StatisticsAreTextThatIsReadAgainAsItWas) {
  samples::TableStatistics of{.numbers = {{"a\"b", 0.1, 1.0 / 3}},
                              .categories = {{"city", {"K\xf6ln", "Rome"}}},
                              .targets = {},
                              .classes = {"no", "\xff"},
                              .standardizes = false};
  EXPECT_EQ(samples::table_statistics_in(samples::text_of(of), "table.json"), of);
  for (const auto* damaged : {"", "[1]", "{}", "{\"standardize\": 1}"}) {
    expect_error(ErrorKind::data, {"table.json is damaged"},
                 [&] { samples::table_statistics_in(damaged, "table.json"); });
  }
}

TEST_F(Tables, PredictionsNeedNoTargets) {
  auto of = options(kTrain, "city,area,rooms\nParis,3,4\n");
  expect_error(ErrorKind::config, {"data.targets", "no column 'price'"}, [&] { samples::load_table(of, Split::test); });
  of.needs_targets = false;
  EXPECT_FALSE(samples::load_table(of, Split::test)->get(0, Chance(0, 0, 0)).tensors.contains(samples::kTargets));
  of = options(kTrain, "city,area,rooms,price\nParis,3,4,\n");
  of.needs_targets = false;
  EXPECT_EQ(samples::load_table(of, Split::test)->size(), 1) << "a cell that is empty";
  of = options(kTrain, "city,area,rooms\nOslo,3,4\n");
  of.categories = {};
  of.targets = {"city"};
  of.target = "category";
  of.needs_targets = false;
  const auto sample = samples::load_table(of, Split::test)->get(0, Chance(0, 0, 0));
  EXPECT_EQ(sample.tensors.at(samples::kLabels).item<std::int64_t>(), -1) << "a class that is not known";
}

TEST_F(Tables, FoldsDivideTheTrainingFile) {
  std::string text = "price,city,area,rooms\n";
  for (int i = 0; i < 10; ++i) text += std::to_string(i) + ",Rome," + std::to_string(i) + ",1\n";
  auto of = options(text);
  of.folds = 3;
  of.standardize = false;
  std::vector<float> held_out;
  for (of.fold = 0; of.fold < of.folds; ++of.fold) {
    const auto eval = samples::load_table(of, Split::test);
    EXPECT_GE(eval->size(), 3);
    EXPECT_EQ(samples::load_table(of, Split::train)->size(), 10 - eval->size());
    for (std::int64_t i = 0; i < eval->size(); ++i) held_out.push_back(features_of(*eval, i).front());
  }
  EXPECT_THAT(held_out, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)) << "each row once";
  of.fold = 3;
  expect_error(ErrorKind::config, {"data.fold", "data.folds"}, [&] { samples::load_table(of, Split::train); });
  of.fold = 0;
  of.folds = 11;
  expect_error(ErrorKind::config, {"data.folds", "10 rows"}, [&] { samples::load_table(of, Split::train); });
  of.folds = 2;
  of.eval = of.train;
  expect_error(ErrorKind::config, {"data.folds", "data.eval"}, [&] { samples::load_table(of, Split::test); });
}

TEST_F(Tables, WrongOptionsNameTheirKey) {
  const auto fails = [&](std::initializer_list<std::string_view> words,
                         const std::function<void(samples::TableOptions&)>& change) {
    auto of = options(kTrain);
    change(of);
    expect_error(ErrorKind::config, words, [&] { samples::load_table(of, Split::train); });
  };
  fails({"data.numbers", "'aera'", "did you mean 'area'"}, [](auto& of) { of.numbers = {"aera"}; });
  fails({"data.numbers", "'area' twice"}, [](auto& of) { of.numbers = {"area", "area"}; });
  fails({"data.categories", "'city' twice"}, [](auto& of) { of.categories = {"city", "city"}; });
  fails({"data.targets", "'price' twice"}, [](auto& of) { of.targets = {"price", "price"}; });
  fails({"data.targets", "empty"}, [](auto& of) { of.targets = {}; });
  fails({"data.numbers", "data.categories"}, [](auto& of) { of.numbers = of.categories = {}; });
  fails({"data.separator"}, [](auto& of) { of.separator = ""; });
  fails({"data.fill", "'median'"}, [](auto& of) { of.fill = "median"; });
  fails({"data.train", "/nowhere.csv"}, [](auto& of) { of.train = "/nowhere.csv"; });
  fails({"data.targets", "takes one"}, [](auto& of) {
    of.target = "category";
    of.targets = {"city", "notes"};
  });
  const auto empty = options("");
  expect_error(ErrorKind::config, {"data.train", "is empty"}, [&] { samples::load_table(empty, Split::train); });
  const auto bare = options("price,city,area,rooms\n");
  expect_error(ErrorKind::config, {"data.train", "no rows"}, [&] { samples::load_table(bare, Split::train); });
}

}  // namespace
}  // namespace lockstep::test
