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
