// The table of keys and values of other frameworks, with Lockstep's replacements.
#include <lockstep/base/foreign_keys.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

// The words that docs/coming_from.md lists as not accepted; its table is generated from these. `here` is a key, or a
// sentence.
constexpr auto kForeignWords = std::to_array<ForeignWord>({
    {"parallel_mode", "MindSpore", "parallel.mode"},
    {"gradients_mean", "MindSpore", "parallel.gradients_mean"},
    {"enable_parallel_optimizer", "MindSpore", "parallel.shard_optimizer"},
    {"optimizer_weight_shard_size", "MindSpore",
     "here parallel.shard_optimizer shares the optimizer's state among all ranks; remove the key"},
    {"parameter_broadcast", "MindSpore", "here all ranks always start with the parameters of rank 0; remove the key"},
    {"full_batch", "MindSpore", "here write parallel.dataset_strategy: full_batch"},
    {"search_mode", "MindSpore",
     "here parallel.mode: auto searches by the costs of parallel.cluster, and there is one way of searching; remove "
     "the key"},
    {"auto_parallel_search_mode", "MindSpore",
     "here parallel.mode: auto searches by the costs of parallel.cluster, and there is one way of searching; remove "
     "the key"},
    {"pipeline_stages", "MindSpore",
     "here there is no pipeline of stages; parallel.mode: auto or semi_auto divides tensors, and parallel.recompute "
     "saves memory"},
    {"all_reduce_fusion_config", "MindSpore", "parallel.bucket_mb"},
    {"grad_accumulation_step", "MindSpore", "train.accumulate"},
    {"mode", "MindSpore",
     "here there is one mode of execution (GRAPH_MODE and PYNATIVE_MODE are MindSpore's); remove the key"},
    {"device_target", "MindSpore", "system.device"},
    {"device_id", "MindSpore", "here the local rank chooses the device, or system.device: cuda:N"},
    {"save_graphs", "MindSpore",
     "here there are no graphs to save; lockstep train --dry-run prints the model and its plan"},
    {"device_num", "MindSpore",
     "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"rank_size", "MindSpore",
     "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"rank_id", "MindSpore", "here the launcher gives each process its rank; remove the key"},
    {"global_rank", "MindSpore", "here the launcher gives each process its rank; remove the key"},
    {"num_shards", "MindSpore", "here each rank takes its share of the samples by itself; remove the key"},
    {"shard_id", "MindSpore", "here each rank takes its share of the samples by itself; remove the key"},
    {"num_parallel_workers", "MindSpore", "data.workers"},
    {"python_multiprocessing", "MindSpore", "here data.workers are threads; remove the key"},
    {"max_rowsize", "MindSpore", "here batches need no limit of this kind; remove the key"},
    {"drop_remainder", "MindSpore", "here data.remainder sets it: drop for true, exact or pad for false"},
    {"epoch_size", "MindSpore", "train.epochs"},
    {"save_checkpoint_steps", "MindSpore", "checkpoint.every_steps"},
    {"save_checkpoint_seconds", "MindSpore", "checkpoint.every_seconds"},
    {"keep_checkpoint_max", "MindSpore", "checkpoint.keep"},
    {"keep_checkpoint_per_n_minutes", "MindSpore",
     "here checkpoint.every_seconds sets how often to save, and checkpoint.keep how many checkpoints to keep"},
    {"integrated_save", "MindSpore", "here a checkpoint can be read by any number of ranks; remove the key"},
    {"async_save", "MindSpore", "checkpoint.async"},
    {"exception_save", "MindSpore",
     "here a run that gets SIGTERM saves after its step, and lost ranks continue from memory; remove the key"},
    {"prefix", "MindSpore", "here a checkpoint has the name of its step; checkpoint.folder is its folder"},
    {"directory", "MindSpore", "checkpoint.folder"},
    {"per_print_times", "MindSpore", "callbacks.loss_every"},
    {"loss_scale_manager", "MindSpore", "here the section 'loss_scaler' sets it, e.g. loss_scaler: {type: dynamic}"},
    {"drop_overflow_update", "MindSpore, MindOCR",
     "here the section 'loss_scaler' always skips steps that overflow; remove the key"},
    {"keep_batchnorm_fp32", "MindSpore",
     "here model.autocast applies to convolutions and matrix products only; remove the key"},
    {"eval.*", "MindOCR",
     "here data.eval, data.eval_batch_size, data.eval_transforms and metrics set it; lockstep convert mindocr FILE "
     "translates a file of MindOCR"},
    {"train.loader.*", "MindOCR",
     "here data.batch_size, data.workers, data.shuffle and data.remainder set it; lockstep convert mindocr FILE "
     "translates a file of MindOCR"},
    {"train.dataset.*", "MindOCR",
     "here data.name, data.root, data.train and data.train_transforms set it; lockstep convert mindocr FILE translates "
     "a file of MindOCR"},
    {"train.ema", "MindOCR", "here it is a callback: callbacks.use: [ema]"},
    {"train.ema_decay", "MindOCR", "here it is a key of a callback: callbacks.use: [ema: {decay: 0.9999}]"},
    {"train.clip_grad", "MindOCR", "here train.clip_norm: NORM switches it on"},
    {"train.log_interval", "MindOCR", "callbacks.loss_every"},
    {"train.pred_cast_fp32", "MindOCR", "here sums of losses stay in float32; remove the key"},
    {"system.log_interval", "MindOCR", "callbacks.loss_every"},
    {"system.val_while_train", "MindOCR", "here train.eval_every: N evaluates after every N epochs"},
    {"system.val_start_epoch", "MindOCR", "here train.eval_every: N evaluates after every N epochs"},
    {"system.val_interval", "MindOCR", "train.eval_every"},
    {"system.mode", "MindOCR", "here there is one mode of execution; remove the key"},
    {"postprocess", "MindOCR",
     "here it is part of the task (section 'task'); lockstep convert mindocr FILE translates a file of MindOCR"},
    {"metric", "MindOCR", "metrics"},
    {"scheduler.scheduler", "MindOCR", "scheduler.name"},
    {"scheduler.num_epochs", "MindOCR", "train.epochs"},
    {"optimizer.opt", "MindOCR", "optimizer.name"},
    {"optimizer.filter_bias_and_bn", "MindOCR", "optimizer.no_decay"},
    {"gpu_device_num", "OneFlow",
     "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"cpu_device_num", "OneFlow",
     "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"device_num_per_node", "OneFlow", "parallel.devices_per_node"},
    {"node_num", "OneFlow", "here parallel.nodes lists the nodes, or lockstep run --nnodes N sets how many there are"},
    {"num_nodes", "OneFlow", "here parallel.nodes lists the nodes, or lockstep run --nnodes N sets how many there are"},
    {"machine", "OneFlow",
     "here parallel.nodes lists the machines, e.g. parallel.nodes: [{addr: 10.0.0.1}, {addr: 10.0.0.2}]"},
    {"machines", "OneFlow",
     "here parallel.nodes lists the machines, e.g. parallel.nodes: [{addr: 10.0.0.1}, {addr: 10.0.0.2}]"},
    {"ctrl_port", "OneFlow", "parallel.ctrl_port"},
    {"node_size", "OneFlow", "here parallel.nodes lists the nodes, or lockstep run --nnodes N sets how many there are"},
    {"sbp", "OneFlow", "here parallel.strategy or parallel.shard places tensors: Shard(0), Replicate(), Partial(sum)"},
    {"placement", "OneFlow", "here all ranks of the job hold a tensor, arranged by parallel.mesh; remove the key"},
    {"zero_stage", "OneFlow",
     "here parallel.shard_optimizer: true is stage 1, and parallel.wrapper.type: fully_sharded is stage 3"},
    {"enable_zero", "OneFlow",
     "here parallel.shard_optimizer: true is stage 1, and parallel.wrapper.type: fully_sharded is stage 3"},
    {"enable_amp", "OneFlow", "model.autocast"},
    {"amp", "MMEngine", "here model.autocast sets it, e.g. model.autocast: bfloat16"},
    {"seed", "MMEngine", "system.seed"},
    {"cudnn_benchmark", "MMEngine", "here there is nothing to switch; remove the key"},
    {"data_url", "ModelArts",
     "here data.root is the folder of the data set; --ignore-unknown ignores arguments that a platform adds"},
    {"train_url", "ModelArts",
     "here system.work_dir is the folder for results; --ignore-unknown ignores arguments that a platform adds"},
});

struct ForeignKey {
  std::string_view name;  ///< in lower case, without '_'
  std::string_view ours;
};

// Key names of other trainers, recipes and argument parsers. Only names with a single possible meaning are listed.
constexpr auto kForeignKeys = std::to_array<ForeignKey>({
    {"learningrate", "optimizer.lr"},
    {"baselr", "optimizer.lr"},
    {"initlr", "optimizer.lr"},
    {"initiallr", "optimizer.lr"},
    {"optim", "optimizer.name"},
    {"optimizername", "optimizer.name"},
    {"optimizertype", "optimizer.name"},
    {"optimizer.type", "optimizer.name"},
    {"wd", "optimizer.weight_decay"},
    {"l2", "optimizer.weight_decay"},
    {"beta1", "optimizer.betas"},
    {"beta2", "optimizer.betas"},
    {"adambeta1", "optimizer.betas"},
    {"adambeta2", "optimizer.betas"},
    {"epsilon", "optimizer.eps"},
    {"adamepsilon", "optimizer.eps"},
    {"lrscheduler", "scheduler.name"},
    {"lrschedulertype", "scheduler.name"},
    {"scheduler.type", "scheduler.name"},
    {"numwarmupsteps", "scheduler.warmup_steps"},
    {"warmupiters", "scheduler.warmup_steps"},
    {"numwarmupepochs", "scheduler.warmup_epochs"},
    {"etamin", "scheduler.min_lr"},
    {"batch", "data.batch_size"},
    {"bs", "data.batch_size"},
    {"batchsize", "data.batch_size"},
    {"minibatchsize", "data.batch_size"},
    {"trainbatchsize", "data.batch_size"},
    {"perdevicetrainbatchsize", "data.batch_size"},
    {"valbatchsize", "data.eval_batch_size"},
    {"testbatchsize", "data.eval_batch_size"},
    {"perdeviceevalbatchsize", "data.eval_batch_size"},
    {"numworkers", "data.workers"},
    {"dataloadernumworkers", "data.workers"},
    {"prefetchfactor", "data.prefetch"},
    {"dataset", "data.name"},
    {"datasetname", "data.name"},
    {"data.type", "data.name"},
    {"datapath", "data.root"},
    {"dataroot", "data.root"},
    {"datadir", "data.root"},
    {"datafolder", "data.root"},
    {"datasetpath", "data.root"},
    {"data.path", "data.root"},
    {"data.dir", "data.root"},
    {"data.folder", "data.root"},
    {"data.directory", "data.root"},
    {"system.directory", "system.work_dir"},
    {"model.prefix", "model.weights_prefix"},
    {"droplast", "data.remainder"},
    {"transform", "data.train_transforms"},
    {"transforms", "data.train_transforms"},
    {"augmentation", "data.train_transforms"},
    {"maxepoch", "train.epochs"},
    {"maxepochs", "train.epochs"},
    {"numepochs", "train.epochs"},
    {"nepochs", "train.epochs"},
    {"numtrainepochs", "train.epochs"},
    {"maxsteps", "train.steps"},
    {"numsteps", "train.steps"},
    {"totalsteps", "train.steps"},
    {"maxiters", "train.steps"},
    {"iterations", "train.steps"},
    {"numiterations", "train.steps"},
    {"accumulation", "train.accumulate"},
    {"gradaccum", "train.accumulate"},
    {"accumulationsteps", "train.accumulate"},
    {"accumulategradbatches", "train.accumulate"},
    {"gradientaccumulation", "train.accumulate"},
    {"gradientaccumulationsteps", "train.accumulate"},
    {"gradclip", "train.clip_norm"},
    {"clipgradnorm", "train.clip_norm"},
    {"maxgradnorm", "train.clip_norm"},
    {"gradientclipval", "train.clip_norm"},
    {"evalinterval", "train.eval_every"},
    {"valinterval", "train.eval_every"},
    {"checkvaleverynepoch", "train.eval_every"},
    {"criterion", "loss.name"},
    {"lossfn", "loss.name"},
    {"lossfunction", "loss.name"},
    {"loss.type", "loss.name"},
    {"smoothing", "loss.label_smoothing"},
    {"labelsmoothingfactor", "loss.label_smoothing"},
    {"arch", "model.name"},
    {"architecture", "model.name"},
    {"backbone", "model.name"},
    {"network", "model.name"},
    {"modelname", "model.name"},
    {"system.gpu", "system.device"},
    {"model.type", "model.name"},
    {"classes", "model.num_classes"},
    {"nclasses", "model.num_classes"},
    {"numlabels", "model.num_classes"},
    {"pretrained", "model.weights"},
    {"pretrainedweights", "model.weights"},
    {"hiddendim", "model.hidden"},
    {"hiddensize", "model.hidden"},
    {"hiddensizes", "model.hidden"},
    {"fp16", "model.autocast"},
    {"bf16", "model.autocast"},
    {"precision", "model.autocast"},
    {"mixedprecision", "model.autocast"},
    {"randomseed", "system.seed"},
    {"manualseed", "system.seed"},
    {"outdir", "system.work_dir"},
    {"outputdir", "system.work_dir"},
    {"savedir", "system.work_dir"},
    {"logdir", "system.work_dir"},
    {"defaultrootdir", "system.work_dir"},
    {"nthreads", "system.threads"},
    {"numthreads", "system.threads"},
    {"accelerator", "system.device"},
    {"syncbn", "parallel.sync_batch_norm"},
    {"syncbatchnorm", "parallel.sync_batch_norm"},
    {"distbackend", "parallel.backend"},
    {"resumefrom", "checkpoint.resume"},
    {"resumefromcheckpoint", "checkpoint.resume"},
    {"ckptpath", "checkpoint.resume"},
    {"savetopk", "checkpoint.keep"},
    {"savetotallimit", "checkpoint.keep"},
    {"savesteps", "checkpoint.every_steps"},
    {"loginterval", "callbacks.loss_every"},
    {"logeverynsteps", "callbacks.loss_every"},
    {"loggingsteps", "callbacks.loss_every"},
    {"printfreq", "callbacks.loss_every"},
});

struct ForeignSection {
  std::string_view name;  ///< as above
  std::string_view advice;
};

// Sections and keys of other frameworks that have no single counterpart.
constexpr auto kForeignSections = std::to_array<ForeignSection>({
    {"optimwrapper",
     "here the section 'optimizer' has the optimizer itself; accumulative_counts is train.accumulate, "
     "clip_grad.max_norm is train.clip_norm, AmpOptimWrapper is model.autocast"},
    {"paramscheduler", "here the section 'scheduler' has the one schedule of a run, with its warm-up"},
    {"traincfg", "here train.epochs or train.steps sets how long to train, train.eval_every when to evaluate"},
    {"valcfg", "here evaluations need no section; train.eval_every sets when they run"},
    {"testcfg", "here a test needs no section: lockstep eval measures weights"},
    {"traindataloader",
     "here the section 'data' names the data set, data.batch_size, data.workers and data.train_transforms"},
    {"valdataloader", "here the section 'data' names both splits, data.eval_batch_size and data.eval_transforms"},
    {"testdataloader", "here the section 'data' names both splits, data.eval_batch_size and data.eval_transforms"},
    {"valevaluator", "here 'metrics' lists what evaluations measure, e.g. metrics: [accuracy, f1]"},
    {"testevaluator", "here 'metrics' lists what evaluations measure, e.g. metrics: [accuracy, f1]"},
    {"defaulthooks", "here checkpoint.every_epochs, callbacks.loss_every and callbacks.use set the same"},
    {"customhooks", "here callbacks.use lists callbacks"},
    {"visualizer", "here callbacks.tensorboard writes event files"},
    {"envcfg", "here no section is needed: the launcher's variables and parallel.backend set the same"},
    {"launcher", "here no key is needed: the launcher is detected by its variables"},
    {"gpus", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"ngpus", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"numgpus", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"gpuids", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"worldsize", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
});

struct ForeignValue {
  std::string_view name;  ///< in lower case, without '_'
  std::string_view ours;
};

// Values of other frameworks' keys. The choices of a key show which of them are meant.
constexpr auto kForeignValues = std::to_array<ForeignValue>({
    {"autoparallel", "auto"},
    {"semiautoparallel", "semi_auto"},
    {"gpu", "cuda"},
    {"fp16", "float16"},
    {"half", "float16"},
    {"bf16", "bfloat16"},
    {"crossentropyloss", "cross_entropy"},
    {"steplr", "step"},
    {"multisteplr", "multi_step"},
    {"exponentiallr", "exponential"},
    {"cosineannealinglr", "cosine"},
    {"cosineannealing", "cosine"},
    {"onecyclelr", "one_cycle"},
    {"polylr", "polynomial"},
    {"momentumsgd", "momentum"},
    {"dynamiclossscaler", "dynamic"},
    {"staticlossscaler", "static"},
});

// Values that are invalid here for every key.
constexpr auto kValueAdvice = std::to_array<ForeignSection>({
    {"graphmode", "GRAPH_MODE is a mode of execution of MindSpore, and there is only one mode here; remove it"},
    {"pynativemode", "PYNATIVE_MODE is a mode of execution of MindSpore, and there is only one mode here; remove it"},
    {"hybridparallel",
     "HYBRID_PARALLEL is parallelism that a program writes by hand: here with data_parallel and the collectives of its "
     "Group, or with semi_auto and parallel.strategy"},
});

std::string fold(std::string_view key) {
  std::string folded;
  for (const char c : key) {
    if (c == '_' || c == '-') continue;
    folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return folded;
}

}  // namespace

std::span<const ForeignWord> foreign_words() { return kForeignWords; }

bool is_key(const ForeignWord& word) { return word.here.find(' ') == std::string_view::npos; }

std::string here_instead_of(std::string_view key, std::span<const std::string> known) {
  const std::string folded = fold(key);
  const auto* found = std::ranges::find(kForeignKeys, std::string_view(folded), &ForeignKey::name);
  const auto is_known = [&](std::string_view ours) {
    return known.empty() || std::ranges::find(known, ours) != known.end();
  };
  if (found != kForeignKeys.end() && is_known(found->ours)) return fmt::format("; here it is called '{}'", found->ours);
  for (const ForeignWord& word : kForeignWords) {
    if (fold(word.there.substr(0, word.there.find(".*"))) != folded) continue;
    if (!is_key(word)) return fmt::format("; {}", word.here);
    if (is_known(word.here)) return fmt::format("; here it is called '{}'", word.here);
  }
  const auto* section = std::ranges::find(kForeignSections, std::string_view(folded), &ForeignSection::name);
  return section == kForeignSections.end() ? "" : fmt::format("; {}", section->advice);
}

std::string value_here(std::string_view value, std::span<const std::string> choices) {
  const std::string folded = fold(value);
  const auto* advice = std::ranges::find(kValueAdvice, std::string_view(folded), &ForeignSection::name);
  if (advice != kValueAdvice.end()) return fmt::format("; {}", advice->advice);
  const auto* found = std::ranges::find(kForeignValues, std::string_view(folded), &ForeignValue::name);
  if (found == kForeignValues.end() || std::ranges::find(choices, found->ours) == choices.end()) return "";
  return fmt::format("; here it is called '{}'", found->ours);
}

}  // namespace lockstep
