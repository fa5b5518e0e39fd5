#include "example_graphs.h"

#include <fmt/format.h>

namespace lockstep::test {
namespace {

std::size_t attention(StepBuilder& step, const std::string& name, std::size_t x, const GptSizes& of, std::size_t mask) {
  const auto heads = [&](const std::string& part) {
    const auto values = step.linear(name + "." + part, x, of.width);
    return step.transpose(step.view(values, {of.batch, of.length, of.heads, of.width / of.heads}), 1, 2);
  };
  const auto query = heads("query");
  const auto key = heads("key");
  const auto value = heads("value");
  step.in_module(name);
  const auto scores = step.product(query, step.transpose(key, 2, 3));
  const auto seen = step.product(step.softmax(step.masked(scores, mask)), value);
  const auto together = step.copied_view(step.transpose(seen, 1, 2), {of.batch, of.length, of.width});
  return step.linear(name + ".output", together, of.width);
}

std::size_t blocks(StepBuilder& step, std::size_t x, const GptSizes& of) {
  const auto mask = step.constant({of.length, of.length});
  for (std::int64_t i = 0; i < of.layers; ++i) {
    const auto block = fmt::format("blocks.{}", i);
    const auto attended = attention(step, block + ".attention", step.layer_norm(block + ".norm1", x), of, mask);
    step.in_module(block);
    x = step.add(x, attended);
    const auto wide = step.linear(block + ".fc1", step.layer_norm(block + ".norm2", x), 4 * of.width);
    step.in_module(block);
    const auto narrow = step.linear(block + ".fc2", step.gelu(wide), of.width);
    step.in_module(block);
    x = step.add(x, narrow);
  }
  return x;
}

}  // namespace

plan::Graph gpt_step(const GptSizes& of) {
  StepBuilder step;
  const auto tokens = step.input("input", {of.batch, of.length}, false);
  const auto target = step.input("target", {of.batch, of.length}, false);
  const auto x = blocks(step, step.embedding("token", tokens, of.vocabulary, of.width), of);
  const auto logits = step.linear("head", step.layer_norm("norm", x), of.vocabulary);
  step.in_module("");
  return step.train(step.view(logits, {of.batch * of.length, of.vocabulary}),
                    step.view(target, {of.batch * of.length}));
}

plan::Graph block_step(const GptSizes& of) {
  StepBuilder step;
  const auto x = step.input("input", {of.batch, of.length, of.width});
  const auto y = blocks(step, x, of);
  return step.train_towards(y, step.input("target", step.sizes(y)));
}

plan::Graph vgg_step(std::int64_t batch, std::int64_t picture, const std::vector<std::int64_t>& channels,
                     const std::vector<std::int64_t>& widths) {
  StepBuilder step;
  auto x = step.input("input", {batch, 3, picture, picture});
  const auto target = step.input("target", {batch}, false);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    x = step.pool(step.relu(step.convolution(fmt::format("conv{}", i + 1), x, channels[i], 3)));
  }
  step.in_module("");
  x = step.view(x, {batch, step.sizes(x)[1] * step.sizes(x)[2] * step.sizes(x)[3]});
  for (std::size_t i = 0; i < widths.size(); ++i) {
    x = step.linear(fmt::format("fc{}", i + 1), x, widths[i]);
    if (i + 1 < widths.size()) x = step.relu(x);
  }
  return step.train(x, target);
}

plan::Graph mlp_step(std::int64_t batch, const std::vector<std::int64_t>& widths) {
  StepBuilder step;
  auto x = step.input("input", {batch, widths.front()});
  const auto target = step.input("target", {batch}, false);
  for (std::size_t i = 1; i < widths.size(); ++i) {
    x = step.linear(fmt::format("fc{}", i), x, widths[i]);
    if (i + 1 < widths.size()) x = step.relu(x);
  }
  return step.train(x, target);
}

}  // namespace lockstep::test
