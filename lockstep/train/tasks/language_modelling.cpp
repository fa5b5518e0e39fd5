// The language modelling task over token windows: cross entropy, perplexity, greedy decoding of a sample.
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/models/gpt.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/tasks/language_modelling.h>
#include <lockstep/train/tasks/out_of_range.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::train {
namespace {

models::Gpt& gpt_of(torch::nn::Module& model) {
  auto* gpt = dynamic_cast<models::Gpt*>(&model);
  if (gpt != nullptr) return *gpt;
  fail(ErrorKind::config, "task.name", "language_modelling is for model.name gpt, and the model is another");
}

// On one line, as a log wants it.
std::string printable(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    const bool shows = static_cast<unsigned char>(letter) >= 0x20 && static_cast<unsigned char>(letter) < 0x7f;
    out += letter == '\n' ? "\\n" : shows ? std::string(1, letter) : "?";
  }
  return out;
}

std::string text_of(const std::vector<std::int64_t>& tokens) {
  std::string text;
  for (const auto token : tokens) text += token < 256 ? static_cast<char>(token) : '?';
  return text;
}

class LanguageModelling final : public Task {
 public:
  explicit LanguageModelling(LanguageOptions options) : options_(std::move(options)) {}

  Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    const auto& next = batch[samples::kNext];
    auto& gpt = gpt_of(model);
    Outcome outcome;
    try {
      outcome.output = gpt.forward(batch[samples::kTokens]);
      outcome.loss = torch::cross_entropy_loss(outcome.output.flatten(0, 1), next.flatten());
    } catch (const c10::Error&) {
      for (const auto* field : {samples::kTokens, samples::kNext}) {
        require_in_range(batch, field, gpt.shape().vocabulary, "model.vocabulary");
      }
      throw;
    }
    outcome.target = next;
    if (measures) outcome.sums.emplace("accuracy", sum_of(outcome.output.argmax(-1) == next));
    return outcome;
  }

  Values metrics(const Sums& sums) const override {
    auto values = Task::metrics(sums);
    const auto& loss = sums.at("loss");
    values.emplace("perplexity", std::exp(loss.sum / loss.count));
    return values;
  }

  Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    auto& gpt = gpt_of(model);
    auto window = batch[samples::kTokens];
    const auto length = window.size(1);
    std::vector<at::Tensor> added;
    for (std::int64_t i = 0; i < std::max<std::int64_t>(options_.sample_bytes, 1); ++i) {
      const auto next = gpt.forward(window).select(1, length - 1).argmax(-1, /*keepdim=*/true);
      window = torch::cat({window.slice(1, 1), next}, 1);
      added.push_back(next);
    }
    Prediction prediction;
    const auto tokens = torch::cat(added, 1);
    const auto all = (is_global(tokens) ? full(tokens) : tokens).cpu().contiguous();
    for (std::int64_t i = 0; i < all.size(0); ++i) {
      const auto* row = all.data_ptr<std::int64_t>() + i * all.size(1);
      prediction.texts["text"].push_back(text_of({row, row + all.size(1)}));
    }
    prediction.tensors.emplace("tokens", tokens);
    return prediction;
  }

  std::string show(torch::nn::Module& model, const Place& place) override {
    if (options_.sample_bytes == 0 || options_.prompt.empty()) return "";
    auto& gpt = gpt_of(model);
    std::vector<std::int64_t> tokens;
    for (const unsigned char byte : options_.prompt) tokens.push_back(byte % gpt.shape().vocabulary);
    for (std::int64_t i = 0; i < options_.sample_bytes; ++i) {
      // As long as the context, so that each pass has the same shape: what comes later does not change what is earlier.
      const auto context = gpt.shape().context;
      const auto seen = std::min<std::int64_t>(context, static_cast<std::int64_t>(tokens.size()));
      auto window = torch::zeros({1, context}, torch::kLong);
      for (std::int64_t t = 0; t < seen; ++t) window[0][t] = tokens[tokens.size() - static_cast<std::size_t>(seen - t)];
      const auto logits = gpt.forward(place(window)).select(1, seen - 1);
      tokens.push_back(logits.argmax(-1).select(0, 0).item<std::int64_t>());
    }
    return "a sample: " + printable(text_of(tokens));
  }

 private:
  LanguageOptions options_;
};

}  // namespace

void describe(ConfigFields& fields, LanguageOptions& options) {
  fields.field("prompt", options.prompt, anything(), "the beginning of the sample that each evaluation shows");
  fields.field("sample_bytes", options.sample_bytes, between(0, 100000),
               "tokens that the model adds to it; 0: no sample");
}

std::shared_ptr<Task> make_language_modelling(const LanguageOptions& options) {
  return std::make_shared<LanguageModelling>(options);
}

}  // namespace lockstep::train
