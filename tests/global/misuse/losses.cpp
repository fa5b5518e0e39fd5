// Losses whose targets, weights or lengths do not fit their inputs.
#include "attempts.h"

#include <optional>

namespace lockstep::test {
namespace {

using Reduction = std::int64_t;
constexpr std::int64_t kIgnored = -100;

torch::Tensor classes(std::vector<std::int64_t> sizes) { return torch::randint(3, sizes, torch::kLong); }

using ClassLoss = torch::Tensor (*)(X, X, const std::optional<torch::Tensor>&, Reduction);

torch::Tensor given(const std::optional<torch::Tensor>& weight) { return weight.value_or(torch::Tensor()); }

const std::vector<std::pair<std::string, ClassLoss>>& class_losses() {
  using Weight = const std::optional<torch::Tensor>&;
  static const std::vector<std::pair<std::string, ClassLoss>> all{
      {"nll_loss", [](X x, X y, Weight w, Reduction how) { return at::nll_loss(x, y, given(w), how); }},
      {"nll_loss2d", [](X x, X y, Weight w, Reduction how) { return at::nll_loss2d(x, y, given(w), how); }},
      {"nll_loss_nd", [](X x, X y, Weight w, Reduction how) { return at::nll_loss_nd(x, y, given(w), how, 1); }},
      {"cross_entropy", [](X x, X y, Weight w, Reduction how) { return at::cross_entropy_loss(x, y, given(w), how); }},
      {"smoothed cross_entropy",
       [](X x, X y, Weight w, Reduction how) { return at::cross_entropy_loss(x, y, given(w), how, kIgnored, 0.1); }},
  };
  return all;
}

void add_class_losses(std::vector<Attempt>& all) {
  const auto wrong = [](torch::Tensor target, std::int64_t at, std::int64_t value) {
    target.view({-1})[at] = value;
    return target;
  };
  struct Given {
    std::string what;
    torch::Tensor input, target;
    std::optional<torch::Tensor> weight;
  };
  const std::vector<Given> given_to{
      {"as it should", floats({4, 3}), classes({4}), floats({3})},
      {"as it should in two dimensions", floats({2, 3, 2, 4}), classes({2, 2, 4}), std::nullopt},
      {"too few targets", floats({4, 3}), classes({3}), std::nullopt},
      {"too many targets", floats({4, 3}), classes({5}), std::nullopt},
      {"one target", floats({4, 3}), classes({1}), std::nullopt},
      {"a number as target", floats({4, 3}), classes({}), std::nullopt},
      {"targets in rows", floats({4, 3}), classes({4, 1}), std::nullopt},
      {"a number as input", floats({}), classes({}), std::nullopt},
      {"one sample", floats({3}), classes({}), std::nullopt},
      {"one sample with two targets", floats({3}), classes({2}), std::nullopt},
      {"no samples", floats({0, 3}), classes({0}), std::nullopt},
      {"no classes", floats({4, 0}), classes({4}), std::nullopt},
      {"weights of other classes", floats({4, 3}), classes({4}), floats({2})},
      {"more weights", floats({4, 3}), classes({4}), floats({5})},
      {"weights in rows", floats({4, 3}), classes({4}), floats({1, 3})},
      {"probabilities", floats({4, 3}), floats({4, 3}).abs(), std::nullopt},
      {"probabilities of other classes", floats({4, 3}), floats({4, 2}).abs(), std::nullopt},
      {"targets of floats", floats({4, 3}), floats({4}), std::nullopt},
      {"targets of bools", floats({4, 3}), classes({4}) > 1, std::nullopt},
      {"targets of int32", floats({4, 3}), classes({4}).to(torch::kInt), std::nullopt},
      {"an input of integers", classes({4, 3}), classes({4}), std::nullopt},
      {"doubled weights", floats({4, 3}), classes({4}), floats({3}).to(torch::kDouble)},
      {"too large a target in front", floats({4, 3}), wrong(classes({4}), 0, 3), std::nullopt},
      {"too large a target at the end", floats({4, 3}), wrong(classes({4}), 3, 100), std::nullopt},
      {"a negative target", floats({4, 3}), wrong(classes({4}), 1, -1), floats({3})},
      {"an ignored target", floats({4, 3}), wrong(classes({4}), 1, kIgnored), floats({3})},
      {"another batch in two dimensions", floats({2, 3, 2, 4}), classes({3, 2, 4}), std::nullopt},
      {"another height", floats({2, 3, 2, 4}), classes({2, 3, 4}), std::nullopt},
      {"another width", floats({2, 3, 2, 4}), classes({2, 2, 3}), std::nullopt},
      {"a target without width", floats({2, 3, 2, 4}), classes({2, 2}), std::nullopt},
      {"weights of others in two dimensions", floats({2, 3, 2, 4}), classes({2, 2, 4}), floats({4})},
      {"too large in front in two dimensions", floats({2, 3, 2, 4}), wrong(classes({2, 2, 4}), 0, 3), std::nullopt},
      {"too large at the end in two dimensions", floats({2, 3, 2, 4}), wrong(classes({2, 2, 4}), 15, 3), std::nullopt},
      {"negative in two dimensions", floats({2, 3, 2, 4}), wrong(classes({2, 2, 4}), 6, -1), floats({3})},
      {"three dimensions", floats({2, 3, 2}), classes({2, 2}), std::nullopt},
      {"five dimensions", floats({2, 3, 2, 1, 2}), classes({2, 2, 1, 2}), std::nullopt},
      {"five dimensions, unlike", floats({2, 3, 2, 1, 2}), classes({2, 2, 2, 1}), std::nullopt},
  };
  for (const auto& [name, loss] : class_losses()) {
    for (const auto& each : given_to) {
      for (const Reduction how : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
        Tensors inputs{each.input, each.target};
        if (each.weight) inputs.push_back(*each.weight);
        all.push_back(
            on(name + " with " + each.what + ", reduction " + std::to_string(how), inputs, [loss = loss, how](In in) {
              const auto weight = in.size() > 2 ? std::optional(in[2]) : std::nullopt;
              return Tensors{loss(in[0], in[1], weight, how)};
            }));
      }
    }
  }
}

void add_sequence_losses(std::vector<Attempt>& all) {
  using Lengths = std::vector<std::int64_t>;
  const auto add = [&](const std::string& name, X scores, X targets, const Lengths& steps, const Lengths& lengths,
                       std::int64_t blank = 0) {
    all.push_back(on("ctc_loss with " + name, {scores, targets},
                     [=](In in) { return Tensors{at::ctc_loss(in[0].log_softmax(2), in[1], steps, lengths, blank)}; }));
    all.push_back(on("ctc_loss with tensors and " + name, {scores, targets}, [=](In in) {
      const auto options = in[1].options().dtype(torch::kLong);
      const auto as_tensor = [&](const Lengths& from) {
        auto made = at::ones({static_cast<std::int64_t>(from.size())}, options);
        for (std::size_t i = 0; i < from.size(); ++i) made.select(0, static_cast<std::int64_t>(i)).fill_(from[i]);
        return made;
      };
      return Tensors{at::ctc_loss(in[0].log_softmax(2), in[1], as_tensor(steps), as_tensor(lengths), blank)};
    }));
  };
  const auto scores = floats({6, 4, 5});
  const auto targets = torch::randint(1, 5, {4, 3}, torch::kLong);
  add("as it should", scores, targets, {6, 6, 5, 6}, {3, 2, 3, 3});
  add("too few steps", scores, targets, {6, 6, 6}, {3, 3, 3, 3});
  add("too many lengths", scores, targets, {6, 6, 6, 6}, {3, 3, 3, 3, 3});
  add("no lengths", scores, targets, {6, 6, 6, 6}, {});
  add("too long a sequence in front", scores, targets, {7, 6, 6, 6}, {3, 3, 3, 3});
  add("too long a sequence at the end", scores, targets, {6, 6, 6, 7}, {3, 3, 3, 3});
  add("too long a target in front", scores, targets, {6, 6, 6, 6}, {4, 3, 3, 3});
  add("too long a target at the end", scores, targets, {6, 6, 6, 6}, {3, 3, 3, 4});
  add("a blank that is no class", scores, targets, {6, 6, 6, 6}, {3, 3, 3, 3}, 5);
  add("a negative blank", scores, targets, {6, 6, 6, 6}, {3, 3, 3, 3}, -1);
  add("targets of another batch", scores, targets.narrow(0, 0, 3), {6, 6, 6, 6}, {3, 3, 3, 3});
  add("targets in a row", scores, targets.reshape({12}), {6, 6, 6, 6}, {3, 3, 3, 3});
  add("too many targets in a row", scores, torch::ones({14}, torch::kLong), {6, 6, 6, 6}, {3, 3, 3, 3});
  add("too few targets in a row", scores, targets.reshape({12}).narrow(0, 0, 10), {6, 6, 6, 6}, {3, 3, 3, 3});
  add("targets of floats", scores, floats({4, 3}), {6, 6, 6, 6}, {3, 3, 3, 3});
  add("targets of three dimensions", scores, torch::ones({4, 3, 1}, torch::kLong), {6, 6, 6, 6}, {3, 3, 3, 3});
}

void add_other_losses(std::vector<Attempt>& all) {
  using at::Reduction::Mean;
  const auto add = [&](const std::string& name, Tensors inputs, torch::Tensor (*run)(In)) {
    all.push_back(on(name, std::move(inputs), [run](In in) { return Tensors{run(in)}; }));
  };
  const auto weighted = [](In in) { return at::binary_cross_entropy_with_logits(in[0], in[1], in[2]); };
  add("bce with an unlike weight", {floats({4, 3}), floats({4, 3}), floats({4})}, weighted);
  add("bce with a weight", {floats({4, 3}), floats({4, 3}), floats({3})}, weighted);
  add("bce of numbers above 1", {floats({4, 3}).abs() + 1, floats({4, 3})},
      [](In in) { return at::binary_cross_entropy(in[0], in[1]); });
  auto one_is_wrong = torch::full({4, 3}, 0.5F);
  one_is_wrong[3][2] = 2;
  add("bce of one number above 1", {one_is_wrong, floats({4, 3}).sigmoid()},
      [](In in) { return at::binary_cross_entropy(in[0], in[1]); });
  add("cosine_embedding_loss", {floats({4, 3}), floats({4, 3}), floats({5})},
      [](In in) { return at::cosine_embedding_loss(in[0], in[1], in[2]); });
  add("triplet_margin_loss", {floats({4, 3}), floats({4, 3}), floats({5, 3})},
      [](In in) { return at::triplet_margin_loss(in[0], in[1], in[2]); });
  add("margin_ranking_loss", {floats({4}), floats({4}), floats({3})},
      [](In in) { return at::margin_ranking_loss(in[0], in[1], in[2]); });
  add("multilabel_margin_loss", {floats({4, 3}), classes({4, 2})},
      [](In in) { return at::multilabel_margin_loss(in[0], in[1]); });
  add("mse_loss with an unknown reduction", {floats({4, 3}), floats({4, 3})},
      [](In in) { return at::mse_loss(in[0], in[1], 1) + at::mse_loss(in[0], in[1].t()); });
  add("nll_loss backward of another gradient", {floats({5}), floats({4, 3}), classes({4})}, [](In in) {
    return at::nll_loss_backward(in[0], in[1], in[2], {}, at::Reduction::None, kIgnored, in[0].new_ones({}));
  });
  add("nll_loss backward of too large a target", {floats({}), floats({4, 3}), classes({4}) + 3},
      [](In in) { return at::nll_loss_backward(in[0], in[1], in[2], {}, Mean, kIgnored, in[0].new_ones({})); });
  add("nll_loss2d backward of another target", {floats({}), floats({2, 3, 2, 4}), classes({2, 2, 3})},
      [](In in) { return at::nll_loss2d_backward(in[0], in[1], in[2], {}, Mean, kIgnored, in[0].new_ones({})); });
  add("mse_loss backward of another shape", {floats({4}), floats({4, 3}), floats({4, 3})},
      [](In in) { return at::mse_loss_backward(in[0], in[1], in[2], at::Reduction::None); });
}

}  // namespace

std::vector<Attempt> losses() {
  std::vector<Attempt> all;
  add_class_losses(all);
  add_sequence_losses(all);
  add_other_losses(all);
  return all;
}

}  // namespace lockstep::test
