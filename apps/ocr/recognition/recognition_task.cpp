// The task text_recognition: CTC loss, word scores, predictions, and the treatment of words with too few columns.
#include <apps/ocr/recognition/recognition_task.h>

#include <apps/ocr/recognition/characters.h>
#include <apps/ocr/recognition/crnn.h>
#include <apps/ocr/recognition/ctc.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/samples/pictures.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace lockstep::ocr {
namespace {

constexpr std::string_view kInfinite = "infinite_losses";

Crnn& crnn_of(torch::nn::Module& model) {
  auto* crnn = dynamic_cast<Crnn*>(&model);
  if (crnn != nullptr) return *crnn;
  fail(ErrorKind::config, "task.name",
       "text_recognition is for the models crnn_resnet34 and crnn_vgg7, and the model is another");
}

const std::vector<std::string>& labels_of(const samples::Batch& batch) {
  const auto found = batch.texts.find(samples::kLabels);
  if (found != batch.texts.end()) return found->second;
  fail(ErrorKind::config, "data.name",
       "text_recognition needs the text field `{}`, and the samples have none; use data.name=words", samples::kLabels);
}

std::string name_of(const samples::Batch& batch, std::size_t word) {
  const auto found = batch.texts.find(samples::kNames);
  if (found == batch.texts.end()) return fmt::format("sample {}", batch.indices.at(word));
  return found->second.at(word);
}

class Recognition final : public train::Task {
 public:
  explicit Recognition(const RecognitionOptions& options)
      : options_(options),
        dictionary_(options.dictionary, "task"),
        blank_(options.blank == "first" ? BlankPlace::first : BlankPlace::last) {}

  train::Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    const auto logits = logits_of(model, batch);
    const auto& labels = labels_of(batch);
    CtcTargets targets;
    std::int64_t infinite = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto numbers = dictionary_.encode(characters_of(labels[i]));
      if (numbers.empty() && model.is_training()) refuse_without_characters(batch, i);
      if (columns_needed(numbers) > logits.size(0)) {
        ++infinite;
        tell_infinite(batch, i, columns_needed(numbers), logits.size(0));
      }
      targets.add(numbers, blank_);
    }
    const auto blank = blank_class(dictionary_, blank_);
    train::Outcome outcome{.loss = ctc_losses(logits, targets, blank, options_.zero_infinity).mean()};
    if (measures) {
      WordScores scores;
      const auto words = read_greedily(logits, dictionary_, blank_);
      for (std::size_t i = 0; i < labels.size(); ++i) {
        scores.add(words[i].text, labels[i], options_.filter, dictionary_);
      }
      outcome.sums = scores.measures();
      outcome.sums.emplace(kInfinite, train::Measure{torch::tensor(static_cast<double>(infinite), torch::kDouble), 1});
    }
    return outcome;
  }

  train::Values metrics(const train::Sums& sums) const override {
    auto values = word_values(sums);
    if (const auto found = sums.find(kInfinite); found != sums.end() && found->second.sum > 0) {
      values.emplace(kInfinite, found->second.sum);
    }
    return values;
  }

  train::Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    train::Prediction prediction;
    std::vector<double> confidences;
    auto& texts = prediction.texts["text"];
    for (auto& word : read_greedily(logits_of(model, batch), dictionary_, blank_)) {
      texts.push_back(std::move(word.text));
      confidences.push_back(word.confidence);
    }
    prediction.tensors.emplace("confidence", torch::tensor(confidences, torch::kDouble));
    auto& names = prediction.texts["name"];
    for (std::size_t i = 0; i < texts.size(); ++i) names.push_back(name_of(batch, i));
    return prediction;
  }

  std::map<std::string, std::string, std::less<>> files(const train::Prediction& all) const override {
    std::string lines;
    const auto names = all.texts.find("name"), texts = all.texts.find("text");
    if (names == all.texts.end() || texts == all.texts.end()) return {};
    for (std::size_t i = 0; i < names->second.size(); ++i) {
      lines +=
          fmt::format("{}\t{}\n", std::filesystem::path(names->second[i]).filename().string(), texts->second.at(i));
    }
    return {{"rec_results.txt", lines}};
  }

  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    return logits_of(model, batch).sum();
  }

 private:
  at::Tensor logits_of(torch::nn::Module& model, const samples::Batch& batch) const {
    const auto logits = crnn_of(model).forward(batch[samples::kPictures]);
    if (logits.size(2) != dictionary_.size() + 1) {
      fail(ErrorKind::config, "model.num_classes",
           "is {}, and task.dictionary has {} characters, which with the blank of CTC are {} classes; set it to {}",
           logits.size(2), dictionary_.size(), dictionary_.size() + 1, dictionary_.size() + 1);
    }
    return logits;
  }

  [[noreturn]] void refuse_without_characters(const samples::Batch& batch, std::size_t word) const {
    fail(ErrorKind::config, "task.dictionary",
         "has no character of the word '{}' of {}, so there is nothing to learn of it; data.name=words leaves such "
         "words out, with the same dictionary, use_space_char and lower in data as in task",
         cut_text(labels_of(batch)[word]), name_of(batch, word));
  }

  void tell_infinite(const samples::Batch& batch, std::size_t word, std::int64_t needed, std::int64_t columns) {
    constexpr std::int64_t kShown = 10;
    const auto text = fmt::format(
        "the word '{}' of {} needs {} columns (one for each character, and one between equal "
        "neighbours), and the network makes {}",
        cut_text(labels_of(batch)[word]), name_of(batch, word), needed, columns);
    if (!options_.zero_infinity) {
      fail(ErrorKind::data, "task.zero_infinity",
           "is false, and {}; make data.max_text_len smaller, the pictures wider, or set it to true", text);
    }
    if (++told_ > kShown) return;
    log_warning("{}; its loss counts as 0 (task.zero_infinity)", text);
  }

  RecognitionOptions options_;
  Dictionary dictionary_;
  BlankPlace blank_;
  std::int64_t told_ = 0;  // tasks are called on one thread
};

}  // namespace

void describe(ConfigFields& fields, RecognitionOptions& options) {
  describe_dictionary(fields, options.dictionary);
  fields.field("blank", options.blank, one_of({"last", "first"}),
               "the class that is CTC's blank: behind the characters, or before them");
  fields.field("zero_infinity", options.zero_infinity, anything(),
               "a word with more characters than the network has columns has loss 0 and is counted; false: an error");
  describe_filter(fields, options.filter);
}

std::shared_ptr<train::Task> make_recognition(const RecognitionOptions& options) {
  return std::make_shared<Recognition>(options);
}

}  // namespace lockstep::ocr
