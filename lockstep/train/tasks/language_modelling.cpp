// The language modelling task over token windows: cross entropy, perplexity, decoding of a sample; draws of the next
// token: temperature, then the most likely ones by number (top_k) or by sum (top_p).
#include <lockstep/base/error.h>
#include <lockstep/data/sampler.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/models/gpt.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/tasks/batch_checks.h>
#include <lockstep/train/tasks/language_modelling.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

namespace lockstep::train {
namespace {

constexpr std::int64_t kNotCounted = -100;  // metrics leave out targets below 0

models::Gpt& gpt_of(torch::nn::Module& model) {
  auto* gpt = dynamic_cast<models::Gpt*>(&model);
  if (gpt != nullptr) return *gpt;
  fail(ErrorKind::config, "task.name", "language_modelling is for model.name gpt, and the model is another");
}

// The text on one line, for the log.
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
      // Values for each token together with `counted`, until the selection of tokens.
      const auto how = batch.tensors.contains(samples::kCounted) ? at::Reduction::None : at::Reduction::Mean;
      outcome.loss = torch::cross_entropy_loss(outcome.output.flatten(0, 1), next.flatten(), {}, how);
    } catch (const c10::Error&) {
      for (const auto* field : {samples::kTokens, samples::kNext}) {
        require_in_range(batch, field, gpt.shape().vocabulary, "model.vocabulary");
      }
      throw;
    }
    outcome.target = next;
    if (batch.tensors.contains(samples::kCounted)) {
      count_some(outcome, batch[samples::kCounted], measures);
    } else if (measures) {
      outcome.sums.emplace("accuracy", sum_of(outcome.output.argmax(-1) == next));
    }
    return outcome;
  }

  Values metrics(const Sums& sums) const override {
    auto values = Task::metrics(sums);
    const auto& loss = sums.at("loss");
    values.emplace("perplexity", std::exp(loss.sum / loss.count));
    return values;
  }

  Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    auto texts = texts_in(batch);
    const auto& tokens = batch[samples::kTokens];
    std::function<at::Tensor(const at::Tensor&)> place = [device = tokens.device()](const at::Tensor& window) {
      return window.to(device);
    };
    if (is_global(tokens)) {
      place = [&tokens, device = to_local(tokens).device()](const at::Tensor& window) {
        return distribute(window.to(device), mesh_of(tokens), placements_of(tokens));
      };
    }
    const auto count = std::max<std::int64_t>(options_.sample_bytes, 1);
    const auto window = tokens.size(1);
    write_on(texts, gpt_of(model), count, window, place);
    Prediction prediction;
    auto added = torch::empty({static_cast<std::int64_t>(texts.size()), count}, torch::kLong);
    auto* at = added.data_ptr<std::int64_t>();
    for (const auto& text : texts) {
      at = std::copy(text.tokens.end() - count, text.tokens.end(), at);
      prediction.texts["text"].push_back(text_of({text.tokens.end() - count, text.tokens.end()}));
    }
    prediction.tensors.emplace("tokens", added);
    return prediction;
  }

  std::string show(torch::nn::Module& model, const Place& place) override {
    if (options_.sample_bytes == 0 || options_.prompt.empty()) return "";
    auto& gpt = gpt_of(model);
    std::vector<Text> texts(1);
    for (const unsigned char byte : options_.prompt) texts[0].tokens.push_back(byte % gpt.shape().vocabulary);
    write_on(texts, gpt, options_.sample_bytes, gpt.shape().context, place);
    return "a sample: " + printable(text_of(texts[0].tokens));
  }

 private:
  /// Restricts loss and metrics to the tokens that count.
  static void count_some(Outcome& outcome, const at::Tensor& counted, bool measures) {
    if (is_global(counted) || !find_own_values(counted).defined()) {
      fail(ErrorKind::config, "data.loss_behind",
           "is for parallel.mode data_parallel and stand_alone: how many tokens of a batch count depends on its "
           "values, which semi_auto and auto do not have when they divide a step");
    }
    const auto items = counted.sum().item<double>();
    const auto wide = outcome.loss.scalar_type() == torch::kDouble ? outcome.loss : outcome.loss.to(torch::kFloat);
    outcome.loss = wide.mul(counted.flatten()).sum() / std::max(items, 1.0);
    outcome.items = items;
    if (!measures) return;
    const auto right = outcome.output.argmax(-1).eq(outcome.target).logical_and(counted);
    outcome.sums.emplace("accuracy", Measure{right.sum(), items});
    outcome.target = outcome.target.masked_fill(counted.logical_not(), kNotCounted);
  }

  /// A text that the model continues.
  struct Text {
    std::vector<std::int64_t> tokens;
    std::int64_t number = 0;
  };

  static std::vector<Text> texts_in(const samples::Batch& batch) {
    const auto on_cpu = [](const at::Tensor& tensor) {
      return (is_global(tensor) ? full(tensor) : tensor).cpu().contiguous();
    };
    const auto tokens = on_cpu(batch[samples::kTokens]);
    const auto numbers_of = [&](const char* field) {
      return batch.tensors.contains(field) ? on_cpu(batch[field]) : at::Tensor();
    };
    const auto lengths = numbers_of(samples::kLengths), numbers = numbers_of(samples::kNumbers);
    std::vector<Text> texts(static_cast<std::size_t>(tokens.size(0)));
    for (std::int64_t i = 0; i < tokens.size(0); ++i) {
      const auto* row = tokens.data_ptr<std::int64_t>() + i * tokens.size(1);
      auto& text = texts[static_cast<std::size_t>(i)];
      text.tokens.assign(row, row + (lengths.defined() ? lengths[i].item<std::int64_t>() : tokens.size(1)));
      if (numbers.defined()) text.number = numbers[i].item<std::int64_t>();
    }
    return texts;
  }

  data::RandomStream draws_of(const Text& text) const {
    std::uint64_t hash = text.tokens.size();
    for (const auto token : text.tokens) hash = data::mix64(hash ^ static_cast<std::uint64_t>(token));
    return {static_cast<std::uint64_t>(options_.sampling.text_seed),
            data::RandomPurpose::text,
            {hash, static_cast<std::uint64_t>(text.number)}};
  }

  /// Adds `count` tokens to each text. The model sees the last tokens of each, up to `window` of them, which is the
  /// shape of each pass: later tokens do not change earlier outputs. `place` converts a tensor to the model's input.
  void write_on(std::vector<Text>& texts, models::Gpt& gpt, std::int64_t count, std::int64_t window,
                const std::function<at::Tensor(const at::Tensor&)>& place) const {
    std::vector<data::RandomStream> draws;
    for (const auto& text : texts) draws.push_back(draws_of(text));
    const auto rows = static_cast<std::int64_t>(texts.size());
    for (std::int64_t step = 0; step < count; ++step) {
      auto input = torch::zeros({rows, window}, torch::kLong);
      auto last = torch::empty({rows}, torch::kLong);
      auto* at = input.data_ptr<std::int64_t>();
      for (std::int64_t i = 0; i < rows; ++i, at += window) {
        const auto& tokens = texts[static_cast<std::size_t>(i)].tokens;
        const auto seen = std::min<std::int64_t>(window, static_cast<std::int64_t>(tokens.size()));
        std::copy(tokens.end() - seen, tokens.end(), at);
        last[i] = seen - 1;
      }
      const auto logits = logits_at(gpt.forward(place(input)), last);
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto* row = logits.data_ptr<float>() + i * logits.size(1);
        const auto of_text = static_cast<std::size_t>(i);
        texts[of_text].tokens.push_back(
            choose_token({row, static_cast<std::size_t>(logits.size(1))}, options_.sampling, draws[of_text].uniform()));
      }
    }
  }

  /// float32 [rows, vocabulary] on the CPU, at one place of each row. There may be more rows: then the first count.
  static at::Tensor logits_at(at::Tensor logits, const at::Tensor& places) {
    const auto rows = places.size(0);
    const auto first = places[0].item<std::int64_t>();
    const bool equal = places.eq(first).all().item<bool>();
    if (equal) logits = logits.select(1, first);
    if (is_global(logits)) logits = full(logits);
    logits = logits.narrow(0, 0, rows);
    if (!equal) logits = logits.index({torch::arange(rows), places.to(logits.device())});
    return logits.to(torch::kCPU, torch::kFloat).contiguous();
  }

  LanguageOptions options_;
};

}  // namespace

void describe(ConfigFields& fields, Sampling& sampling) {
  fields.field("temperature", sampling.temperature, between(0, 1000),
               "of texts that the model writes: logits are divided by it before a token is drawn; 0: always the most "
               "probable token");
  fields.field("top_k", sampling.top_k, at_least(0), "with a temperature: only so many most probable tokens; 0: all");
  fields.field("top_p", sampling.top_p, {.low = 0, .high = 1, .low_excluded = true},
               "with a temperature: of these only the fewest that together have this probability");
  fields.field("text_seed", sampling.text_seed, at_least(0),
               "with a temperature: the same texts again; another number gives others");
}

void check(const Sampling& sampling) {
  if (sampling.temperature > 0) return;
  const auto refuse = [](const char* key, auto value) {
    fail(ErrorKind::config, key,
         "is {}, and sets how tokens are drawn; without task.temperature the most probable one is taken: give a "
         "temperature above 0, such as 0.8, or remove this key",
         value);
  };
  if (sampling.top_k > 0) refuse("task.top_k", sampling.top_k);
  if (sampling.top_p < 1) refuse("task.top_p", sampling.top_p);
  if (sampling.text_seed != 0) refuse("task.text_seed", sampling.text_seed);
}

std::int64_t choose_token(std::span<const float> logits, const Sampling& sampling, double drawn) {
  if (sampling.temperature == 0) return std::ranges::max_element(logits) - logits.begin();
  std::vector<std::int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, std::ranges::greater(),
                           [&](std::int64_t token) { return logits[static_cast<std::size_t>(token)]; });
  if (sampling.top_k > 0) tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(sampling.top_k)));
  std::vector<double> shares;
  const double largest = logits[static_cast<std::size_t>(tokens.front())];
  for (const auto token : tokens) {
    shares.push_back(std::exp((logits[static_cast<std::size_t>(token)] - largest) / sampling.temperature));
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  double kept = 0;
  std::size_t count = 0;
  while (count < shares.size() && (count == 0 || kept < sampling.top_p * all)) kept += shares[count++];
  double place = drawn * kept;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (place < shares[i]) return tokens[i];
    place -= shares[i];
  }
  return tokens[count - 1];
}

void describe(ConfigFields& fields, LanguageOptions& options) {
  fields.field("prompt", options.prompt, anything(), "the beginning of the sample that each evaluation shows");
  fields.field("sample_bytes", options.sample_bytes, between(0, 100000),
               "tokens that the model adds to it, and to each text of lockstep predict; 0: no sample");
  describe(fields, options.sampling);
}

std::shared_ptr<Task> make_language_modelling(const LanguageOptions& options) {
  check(options.sampling);
  return std::make_shared<LanguageModelling>(options);
}

void add_language_modelling(Parts& parts) {
  parts.tasks.push_back(
      {.name = "language_modelling",
       .doc = "the next token of each token; perplexity; a sample of text at each evaluation",
       .options = PartOptions::of(LanguageOptions{}),
       .make = [](const PartOptions& options) { return make_language_modelling(options.as<LanguageOptions>()); },
       .measures = {{"accuracy", "perplexity"}},
       .targets = Targets::classes});
}

}  // namespace lockstep::train
