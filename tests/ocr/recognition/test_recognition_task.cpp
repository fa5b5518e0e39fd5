// The task of reading words: its loss, what it refuses, what it predicts.
#include <apps/ocr/recognition/crnn.h>
#include <apps/ocr/recognition/ctc.h>
#include <apps/ocr/recognition/recognition_task.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/samples/pictures.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

samples::Batch batch_of(const std::vector<std::string>& words) {
  torch::manual_seed(4);
  samples::Batch batch;
  batch.count = static_cast<std::int64_t>(words.size());
  batch.tensors.emplace(samples::kPictures, torch::randn({batch.count, 3, 32, 40}));
  batch.texts[samples::kLabels] = words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    batch.indices.push_back(static_cast<std::int64_t>(i));
    batch.texts[samples::kNames].push_back("words/w" + std::to_string(i) + ".png");
  }
  return batch;
}

std::shared_ptr<ocr::Crnn> small_model(std::int64_t classes = 37) {
  torch::manual_seed(2);
  return ocr::crnn_resnet34({.num_classes = classes, .channels = 4, .hidden = 8});
}

TEST(Recognition, LossIsTheMeanOverWords) {
  const auto batch = batch_of({"Ab", "c!d", "7"});
  const auto model = small_model();
  model->eval();
  const auto outcome = ocr::make_recognition({})->run(*model, batch, false);
  const auto losses =
      ocr::ctc_losses(model->forward(batch[samples::kPictures]), {{10, 11, 12, 13, 7}, {2, 2, 1}}, 36, false);
  EXPECT_NEAR(outcome.loss.item<double>(), losses.sum().item<double>() / 3, 1e-6);
  const auto first = ocr::make_recognition({.blank = "first"})->run(*model, batch, false);
  const auto shifted =
      ocr::ctc_losses(model->forward(batch[samples::kPictures]), {{11, 12, 13, 14, 8}, {2, 2, 1}}, 0, false);
  EXPECT_NEAR(first.loss.item<double>(), shifted.mean().item<double>(), 1e-6);
}

TEST(Recognition, WordsThatDoNotFitAreCountedAndTold) {
  const auto batch = batch_of({"aaaaaaa", "b"});  // 13 columns, and there are 10
  const auto model = small_model();
  const auto task = ocr::make_recognition({});
  testing::internal::CaptureStderr();
  const auto outcome = task->run(*model, batch, true);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("'aaaaaaa'"), HasSubstr("words/w0.png"), HasSubstr("needs 13 columns"),
                             HasSubstr("makes 10"), HasSubstr("counts as 0")));
  EXPECT_TRUE(std::isfinite(outcome.loss.item<double>()));
  train::Sums sums;
  for (const auto& [name, measure] : outcome.sums) sums[name] = {measure.sum.item<double>(), measure.count};
  EXPECT_EQ(task->metrics(sums).at("infinite_losses"), 1);
  expect_error(ErrorKind::data, {"task.zero_infinity", "'aaaaaaa'", "words/w0.png", "13 columns"},
               [&] { ocr::make_recognition({.zero_infinity = false})->run(*model, batch, false); });
}

TEST(Recognition, ClassesAreThoseOfTheDictionary) {
  expect_error(ErrorKind::config, {"model.num_classes", "is 36", "36 characters", "set it to 37"},
               [&] { ocr::make_recognition({})->run(*small_model(36), batch_of({"a"}), false); });
}

TEST(Recognition, AWordWithoutCharactersIsNotTrained) {
  const auto model = small_model();
  const auto task = ocr::make_recognition({});
  expect_error(ErrorKind::config, {"task.dictionary", "'...'", "words/w1.png", "data.name=words"}, [&] {
    task->run(*model, batch_of({"a", "..."}), false);
  });
  model->eval();
  EXPECT_TRUE(std::isfinite(task->run(*model, batch_of({"a", "..."}), true).loss.item<double>()));
}

// A rank without words takes part in the batch norms over all ranks.
TEST(Recognition, ABatchWithoutWordsHasGradientsOfZero) {
  const auto model = small_model();
  model->eval();
  const auto nothing = ocr::make_recognition({})->nothing(*model, batch_of({}));
  EXPECT_EQ(nothing.item<double>(), 0);
  nothing.backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_EQ(item.value().grad().abs().sum().item<double>(), 0) << item.key();
  }
}

TEST(Recognition, PredictsTextsWithConfidence) {
  const auto model = small_model();
  model->eval();
  auto batch = batch_of({"a", "b"});
  batch.texts.erase(samples::kLabels);  // nobody knows them
  const auto task = ocr::make_recognition({});
  const auto prediction = task->predict(*model, batch);
  ASSERT_EQ(prediction.texts.at("text").size(), 2U);
  EXPECT_EQ(prediction.tensors.at("confidence").sizes(), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(prediction.texts.at("name")[1], "words/w1.png");
  const auto files = task->files({.texts = {{"name", {"x/word_1.png", "word_2.png"}}, {"text", {"stage", ""}}}});
  EXPECT_EQ(files.at("rec_results.txt"), "word_1.png\tstage\nword_2.png\t\n");
}

// Only the convolutions are in bfloat16.
TEST(Recognition, UnderAutocastColumnsAreReadInFloat32) {
  const auto model = small_model();
  compat::set_autocast(torch::kBFloat16, /*on_cuda=*/false, true);
  const auto outcome = ocr::make_recognition({})->run(*model, batch_of({"a", "b"}), false);
  const auto logits = model->forward(batch_of({"a", "b"})[samples::kPictures]);
  at::autocast::clear_cache();
  compat::set_autocast(torch::kBFloat16, /*on_cuda=*/false, false);
  EXPECT_EQ(logits.scalar_type(), torch::kFloat);
  EXPECT_EQ(outcome.loss.scalar_type(), torch::kFloat);
  outcome.loss.backward();
  for (const auto& item : model->named_parameters()) EXPECT_TRUE(item.value().grad().defined()) << item.key();
}

}  // namespace
}  // namespace lockstep::test
