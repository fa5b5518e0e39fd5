// Writes down training steps as tracing would: forward, the backward that libtorch makes of it, and the optimizer.
#pragma once

#include <lockstep/plan/graph.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

using global::Argument;
using global::Sizes;

class StepBuilder {
 public:
  using Values = std::vector<std::size_t>;

  std::size_t input(const std::string& name, const Sizes& sizes, bool floating = true);
  std::size_t parameter(const std::string& name, const Sizes& sizes);
  const Sizes& sizes(std::size_t value) const { return graph_.values[value].info.sizes; }

  /// Operators from here on belong to this module.
  void in_module(const std::string& module) { module_ = module; }

  // Layers; the module is named `name`, its parameters name.weight and name.bias.
  std::size_t linear(const std::string& name, std::size_t x, std::int64_t outputs);
  std::size_t convolution(const std::string& name, std::size_t x, std::int64_t channels, std::int64_t kernel);
  std::size_t layer_norm(const std::string& name, std::size_t x);
  std::size_t embedding(const std::string& name, std::size_t indices, std::int64_t rows, std::int64_t columns);

  // Operators.
  std::size_t relu(std::size_t x);
  std::size_t gelu(std::size_t x);
  std::size_t add(std::size_t a, std::size_t b);
  std::size_t product(std::size_t a, std::size_t b);
  std::size_t softmax(std::size_t x);
  std::size_t masked(std::size_t x, std::size_t mask);
  std::size_t view(std::size_t x, const Sizes& sizes);
  std::size_t copied_view(std::size_t x, const Sizes& sizes);
  std::size_t transpose(std::size_t x, std::int64_t a, std::int64_t b);
  std::size_t pool(std::size_t x);
  std::size_t constant(const Sizes& sizes);

  /// The mean negative log likelihood of [N, C] against a target [N]; then backward and SGD with momentum.
  plan::Graph train(std::size_t logits, std::size_t target);
  /// The same with the mean of squares against a target of the same shape.
  plan::Graph train_towards(std::size_t output, std::size_t target);

 private:
  using Tensors = std::vector<std::pair<std::string, std::size_t>>;
  using Others = std::vector<std::pair<std::string, Argument>>;

  std::size_t new_value(const Sizes& sizes, plan::ValueKind kind, const std::string& name = {}, bool floating = true);
  Values op(const std::string& name, const Tensors& tensors, const std::vector<Sizes>& outputs,
            const Others& others = {});
  void in_place(const std::string& name, const Tensors& tensors);
  std::size_t one(const std::string& name, const Tensors& tensors, const Sizes& output, const Others& others = {}) {
    return op(name, tensors, {output}, others)[0];
  }
  /// What to do with the gradient of `of` when there is one.
  void backward_of(std::size_t of, std::function<void(std::size_t)> make);
  void add_gradient(std::size_t to, std::size_t gradient);
  plan::Graph finish(std::size_t loss_input, std::size_t gradient);

  plan::Graph graph_;
  std::string module_;
  plan::Phase phase_ = plan::Phase::forward;
  std::vector<std::function<void()>> tape_;
  std::map<std::size_t, std::size_t> gradients_;
};

}  // namespace lockstep::test
