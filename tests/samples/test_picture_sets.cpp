// Pictures on disk as data sets: by folder, by list, in LMDB.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/samples/pictures.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "base/expect_error.h"
#include "data/files/lmdb_folder.h"
#include "data/files/picture_files.h"

namespace lockstep::test {
namespace {

using data::Split;
using samples::Chance;
using testing::ElementsAre;

std::int64_t label_of(const samples::Sample& sample) {
  return sample.tensors.at(samples::kLabels).item<std::int64_t>();
}

class PictureSets : public testing::Test {
 protected:
  PictureSets() {
    for (const auto& [name, width] : std::map<std::string, int>{
             {"train/cat/b.png", 5}, {"train/cat/sub/a.JPG", 6}, {"train/dog/c.png", 7}, {"val/dog/d.png", 8}}) {
      const auto rgb = pattern(width, 4, width);
      write_bytes(root() / name, name.ends_with("png") ? png_of(rgb, width, 4) : jpeg_of(rgb, width, 4));
    }
    write_bytes(root() / "train/cat/notes.txt", "no picture");
  }

  std::filesystem::path root() const { return folder_.path(); }

  samples::ImageFolderOptions by_folder() const {
    samples::ImageFolderOptions options;
    options.root = root().string();
    return options;
  }

  samples::ImageListOptions by_list(const std::string& text) const {
    write_bytes(root() / "list.txt", text);
    samples::ImageListOptions options;
    options.root = (root() / "train").string();
    options.train = (root() / "list.txt").string();
    return options;
  }

  TemporaryFolder folder_;
};

TEST_F(PictureSets, AFolderHasItsClassesInTheOrderOfTheirNames) {
  const auto train = samples::load_image_folder(by_folder(), Split::train);
  EXPECT_THAT(train->classes(), ElementsAre("cat", "dog"));
  ASSERT_EQ(train->size(), 3);
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{{0, 5}, {0, 6}, {1, 7}};  // label, width
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto sample = train->get(i, Chance(0, 0, i));
    EXPECT_EQ(label_of(sample), expected[static_cast<std::size_t>(i)].first);
    const auto& picture = sample.tensors.at(samples::kPictures);
    EXPECT_EQ(picture.sizes(), (std::vector<std::int64_t>{4, expected[static_cast<std::size_t>(i)].second, 3}));
    EXPECT_EQ(picture.scalar_type(), torch::kByte);
  }
  const auto png = train->get(0, Chance(0, 0, 0)).tensors.at(samples::kPictures);
  EXPECT_TRUE(torch::equal(png.flatten(), torch::tensor(pattern(5, 4, 5), torch::kByte)));
  const auto val = samples::load_image_folder(by_folder(), Split::test);
  ASSERT_EQ(val->size(), 1);
  EXPECT_EQ(label_of(val->get(0, Chance(0, 0, 0))), 1);  // as training numbers it, though it is alone here
  auto without = by_folder();
  without.eval = "";
  EXPECT_EQ(samples::load_image_folder(without, Split::test), nullptr);
}

TEST_F(PictureSets, HiddenFoldersAndFilesOfMacosAreNoneOfAFolder) {
  const auto picture = png_of(pattern(5, 4, 5), 5, 4);
  for (const auto* name : {"train/cat/.ipynb_checkpoints/copy.png", "train/cat/._a.png", "train/cat/__MACOSX/a.png",
                           "train/__MACOSX/cat/a.png", "train/.git/a.png"}) {
    write_bytes(root() / name, picture);
  }
  const auto train = samples::load_image_folder(by_folder(), Split::train);
  EXPECT_THAT(train->classes(), ElementsAre("cat", "dog"));
  EXPECT_EQ(train->size(), 3);
  EXPECT_EQ(samples::load_picture_files(root() / "train/cat")->size(), 1);  // of the folder itself
}

TEST_F(PictureSets, WhatIsWrongInAFolderIsNamed) {
  const auto fails = [&](ErrorKind kind, const samples::ImageFolderOptions& options, Split split,
                         std::initializer_list<std::string_view> words) {
    expect_error(kind, words, [&] { samples::load_image_folder(options, split); });
  };
  auto options = by_folder();
  options.train = "trian";
  fails(ErrorKind::config, options, Split::train, {"data.train", "trian"});
  options = by_folder();
  options.eval = "test";
  fails(ErrorKind::config, options, Split::test, {"data.eval", "test", "''"});
  options = by_folder();
  options.train = "val/dog";
  fails(ErrorKind::config, options, Split::train, {"data.train", "no folders of classes"});
  options = by_folder();
  options.classes = {"cat", "dgo"};
  fails(ErrorKind::data, options, Split::train, {"'dog'", "did you mean 'dgo'"});
  options.classes = {"cat", "dog", "cat"};
  fails(ErrorKind::config, options, Split::train, {"data.classes", "'cat' twice"});
  std::filesystem::create_directories(root() / "train/empty");
  fails(ErrorKind::data, by_folder(), Split::train, {"train/empty", "no pictures"});
}

TEST_F(PictureSets, WhatAListLacksIsGuessed) {
  const auto fails = [&](const std::string& text, std::initializer_list<std::string_view> words,
                         const std::function<void(samples::ImageListOptions&)>& change = {}) {
    auto options = by_list(text);
    if (change) change(options);
    expect_error(ErrorKind::data, words, [&] {
      const auto list = samples::load_image_list(options, Split::train);
      for (std::int64_t i = 0; i < list->size(); ++i) list->get(i, Chance(0, 0, i));
    });
  };
  const auto by_class = [](auto& options) { options.labels.label = "class"; };
  fails("cat/b.png,0\n", {"list.txt:1", "there is a comma", "data.separator to comma"});
  fails("cat/b.png 0\n", {"there is a space", "data.separator to space"});
  fails("cat/b.png\t0\ncat/b.png\t0dog/c.png\t1\n", {"list.txt:2", "line break missing"});
  fails("cat/b.png\tcatdog/c.png\tdog\n", {"list.txt:1", "line break missing"}, by_class);
  fails("cat\\b.png\t0\n", {"cat\\b.png", "write /", "the file is there"});
  fails("cat/B.png\t0\n", {"cat/B.png", "'b.png'"});
  fails("cat/b.png\tcaf\u00e9\ndog/c.png\tcafe\u0301\n", {"list.txt:2", "'caf\u00e9'", "accents"}, [](auto& options) {
    options.labels.label = "class";
    options.labels.classes = {"caf\u00e9"};
  });
  fails(std::string("\xff\xfe"
                    "c\0a\0",
                    6),
        {"list.txt", "UTF-16", "iconv"});
}

TEST_F(PictureSets, RareClassesComeAsOftenAsOthersWithBalancedSampling) {
  auto options = by_folder();
  options.sampling = "balanced";
  const auto balanced = samples::load_image_folder(options, Split::train);  // two of cat, one of dog
  std::map<std::int64_t, int> counts;
  const auto in_epochs = [&](int shards) {
    std::vector<std::vector<std::int64_t>> orders;
    for (int shard = 0; shard < shards; ++shard) {
      const data::ShardedSampler sampler(
          {.dataset_size = 3, .num_shards = shards, .shard_id = shard, .remainder = data::Remainder::exact});
      for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
        const auto order = balanced->order(sampler, epoch);
        orders.emplace_back(order.indices().begin(), order.indices().end());
      }
    }
    return orders;
  };
  const auto alone = in_epochs(1);
  for (const auto& epoch : alone) {
    ASSERT_EQ(epoch.size(), 3U);
    for (const auto index : epoch) ++counts[label_of(balanced->get(index, Chance(0, 0, index)))];
  }
  EXPECT_EQ(counts[1], 2) << "dog once in each epoch of three, cat twice";
  const auto many = in_epochs(3);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(many[rank * 2 + epoch].front(), alone[epoch][rank]);
  }
  auto text = by_list("cat/b.png\tx\n");
  text.labels.label = "text";
  text.sampling = "balanced";
  expect_error(ErrorKind::config, {"data.sampling", "data.label"},
               [&] { samples::load_image_list(text, Split::train); });
}

TEST_F(PictureSets, ABadPictureEndsTheRunOrIsLeftOutAndCounted) {
  const auto whole = jpeg_of(pattern(9, 9, 3), 9, 9);
  write_bytes(root() / "train/dog/cut.jpg", whole.substr(0, whole.size() / 2));
  auto options = by_folder();
  options.pictures.collate = "list";
  const auto batches_of = [&](int shards, int shard) {
    const auto dataset = samples::load_image_folder(options, Split::train);
    const data::ShardedSampler sampler({.dataset_size = dataset->size(),
                                        .num_shards = shards,
                                        .shard_id = shard,
                                        .shuffle = false,
                                        .remainder = data::Remainder::exact,
                                        .batch_size = 4 / shards});
    return dataset->batches(dataset, sampler, {.workers = 1, .prefetch = 1});
  };
  expect_error(ErrorKind::data, {"cut.jpg", "damaged JPEG"}, [&] {
    const auto batches = batches_of(1, 0);
    batches->start(0, 0);
    batches->next();
  });
  options.pictures.on_error = "skip";
  for (const int shards : {1, 2}) {
    std::int64_t count = 0, left_out = 0;
    for (int shard = 0; shard < shards; ++shard) {
      const auto batches = batches_of(shards, shard);
      batches->start(0, 0);
      while (const auto batch = batches->next()) {
        count += batch->count;
        left_out += batch->left_out;
        EXPECT_EQ(static_cast<std::int64_t>(batch->indices.size()), batch->count);
        EXPECT_EQ(static_cast<std::int64_t>(batch->lists.at(samples::kPictures).size()), batch->count);
      }
    }
    EXPECT_EQ(count, 3);
    EXPECT_EQ(left_out, 1);
  }
}

TEST_F(PictureSets, AListHasNumbersNamesOrTexts) {
  auto options = by_list(
      "\xef\xbb\xbf"
      "cat/b.png\t3\r\n\r\n" +
      (root() / "val/dog/d.png").string() + "\t0\n");
  const auto numbers = samples::load_image_list(options, Split::train);
  ASSERT_EQ(numbers->size(), 2);
  EXPECT_EQ(label_of(numbers->get(0, Chance(0, 0, 0))), 3);
  EXPECT_EQ(numbers->get(1, Chance(0, 0, 1)).tensors.at(samples::kPictures).size(1), 8);
  options = by_list("cat/b.png\tthe cat, sitting\ndog/c.png\tCAF\xc3\x89\n");
  options.labels.label = "text";
  EXPECT_EQ(samples::load_image_list(options, Split::train)->get(0, Chance(0, 0, 0)).texts.at(samples::kLabels),
            "the cat, sitting");
  options = by_list("dog/c.png dog\ncat/b.png cat\n");
  options.separator = "space";
  options.labels.label = "class";
  const auto classes = samples::load_image_list(options, Split::train);
  EXPECT_THAT(classes->classes(), ElementsAre("cat", "dog"));
  EXPECT_EQ(label_of(classes->get(0, Chance(0, 0, 0))), 1);
}

TEST_F(PictureSets, AWrongLineOfAListIsNamedByFileAndLine) {
  const auto fails = [&](const std::string& text, std::initializer_list<std::string_view> words,
                         const std::function<void(samples::ImageListOptions&)>& change = {}) {
    auto options = by_list(text);
    if (change) change(options);
    expect_error(ErrorKind::data, words, [&] { samples::load_image_list(options, Split::train); });
  };
  fails("cat/b.png\t1\n\nno label here\n", {"list.txt:3", "data.separator"});
  fails("cat/b.png\tcat\n", {"list.txt:1", "'cat'", "data.label"});
  fails("cat/b.png\t-1\n", {"list.txt:1", "-1"});
  fails("cat/b.png\t1\ndog/c.png\t2\n", {"list.txt:2", "2", "data.num_classes is 2"},
        [](auto& options) { options.labels.num_classes = 2; });
  fails("cat/b.png\tcta\n", {"list.txt:1", "'cta'", "did you mean 'cat'"}, [](auto& options) {
    options.labels.label = "class";
    options.labels.classes = {"cat", "dog"};
  });
  auto options = by_list("cat/b.png\t1\nwrong\n");
  options.pictures.on_error = "skip";
  EXPECT_EQ(samples::load_image_list(options, Split::train)->size(), 1);
  options = by_list("\n\n");
  expect_error(ErrorKind::config, {"data.train", "no lines"}, [&] { samples::load_image_list(options, Split::train); });
  options = by_list("cat/none.png\t1\n");
  const auto missing = samples::load_image_list(options, Split::train);
  expect_error(ErrorKind::data, {"cat/none.png", "No such file"}, [&] { missing->get(0, Chance(0, 0, 0)); });
}

TEST_F(PictureSets, DatabasesOfATreeAreOneDataSet) {
  const auto picture = [](int width) { return png_of(pattern(width, 3, width), width, 3); };
  write_lmdb(root() / "words/MJ", {{"num-samples", "2"},
                                   {"image-000000001", picture(11)},
                                   {"label-000000001", "one"},
                                   {"image-000000002", picture(12)},
                                   {"label-000000002", "Two words"}});
  write_lmdb(root() / "words/ST", {{"num-samples", "2"},
                                   {"image-000000001", picture(13)},
                                   {"label-000000001", "three"},
                                   {"image-000000002", picture(14).substr(0, 60)}});
  samples::ImageLmdbOptions options;
  options.train = (root() / "words").string();
  const auto words = samples::load_image_lmdb(options, Split::train);
  ASSERT_EQ(words->size(), 4);
  const auto third = words->get(2, Chance(0, 0, 2));
  EXPECT_EQ(third.texts.at(samples::kLabels), "three");
  EXPECT_EQ(third.tensors.at(samples::kPictures).size(1), 13);
  expect_error(ErrorKind::data, {"image-000000002", "words/ST", "damaged PNG"},
               [&] { words->get(3, Chance(0, 0, 3)); });
  options.labels.label = "number";
  const auto numbers = samples::load_image_lmdb(options, Split::train);
  expect_error(ErrorKind::data, {"label-000000001", "words/MJ", "'one'"}, [&] { numbers->get(0, Chance(0, 0, 0)); });
}

TEST_F(PictureSets, ADatabaseThatLacksKeysIsNamed) {
  samples::ImageLmdbOptions options;
  options.train = (root() / "lmdb").string();
  const auto load = [&] { return samples::load_image_lmdb(options, Split::train); };
  std::filesystem::create_directories(options.train);
  expect_error(ErrorKind::config, {"data.mdb"}, load);
  write_lmdb(options.train, {{"other", "1"}});
  expect_error(ErrorKind::data, {"num-samples", "data.mdb"}, load);
  write_lmdb(options.train, {{"num-samples", "many"}});
  expect_error(ErrorKind::data, {"num-samples", "'many'"}, load);
  write_lmdb(options.train, {{"num-samples", "1000"}});
  expect_error(ErrorKind::data, {"num-samples", "1000", "2 keys"}, load);
  write_lmdb(options.train, {{"num-samples", "1"}});
  const auto one = load();
  expect_error(ErrorKind::data, {"image-000000001", "data.mdb"}, [&] { one->get(0, Chance(0, 0, 0)); });
}

}  // namespace
}  // namespace lockstep::test
