//! Fine-tuning as a whole: runs that are interrupted, stop early, learn their rows, and ship what was scored.

use std::{cell::Cell, path::Path};

use needle_core::{
    Adapter, Checkpoint, DeviceSpec, Engine, EngineOptions, Error, Flow,
    checkpoint::BitMap,
    course::{Event, Files, Finished, History, Record, Start},
    data::Dataset,
    device::Selected,
    finetune::{Finetune, FinetuneOptions, Report, judge},
    score::{self, EvalOptions},
    train::AdapterShape,
};

use crate::scratch::Scratch;

const DATA: &str = include_str!("../examples/finetune.jsonl");

/// The first lines of the sample data.
fn lines(count: usize) -> Dataset {
    let lines: Vec<_> = DATA.lines().take(count).collect();
    Dataset::read(lines.join("\n").as_bytes(), "sample").unwrap()
}

fn cpu() -> Selected {
    DeviceSpec::Cpu.open().unwrap()
}

fn quick() -> FinetuneOptions {
    FinetuneOptions {
        epochs: 2,
        batch_size: 3,
        learning_rate: 1e-3,
        adapter: AdapterShape { rank: 4, alpha: 8.0 },
        val_split: 0.25,
        ..FinetuneOptions::default()
    }
}

fn factors(adapter: &Adapter) -> Vec<u8> {
    let pairs = adapter.pairs.values().flat_map(|(a, b)| [a, b]);
    pairs.flat_map(|dense| dense.bytes.to_vec()).collect()
}

/// Steps and looks without their times.
fn told(history: &History) -> Vec<String> {
    let line = |record: &Record| match record {
        Record::Step {
            step, epoch, loss, lr, ..
        } => format!("{step} {epoch} {loss} {lr}"),
        Record::Look { step, val_loss, .. } => format!("{step} look {val_loss}"),
    };
    history.records.iter().map(line).collect()
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_adapter() {
    let base = Checkpoint::demo().unwrap();
    let data = lines(8);
    let run = Finetune::prepare(&base, &base.tokenizer().unwrap(), &data, quick()).unwrap();
    let course = run.course();
    let whole = course.run(&cpu(), Start::Anew, None, |_| Flow::Continue).unwrap();
    assert_eq!(whole.history.losses().len(), 4);

    let folder = Scratch::new("finetune-1");
    let files = Files::beside(&folder.join("adapter.safetensors"));
    let refused = course.run(&cpu(), Start::Resumed, Some(&files), |_| Flow::Continue);
    assert!(
        matches!(refused.err(), Some(Error::Io { .. })),
        "there is nothing to resume"
    );
    let stop_after = |steps: usize| {
        move |event: Event<'_>| match event {
            Event::Record(Record::Step { step, .. }) if *step == steps => Flow::Stop,
            _ => Flow::Continue,
        }
    };
    let part = course.run(&cpu(), Start::Anew, Some(&files), stop_after(1)).unwrap();
    assert!(part.interrupted);
    let part = course.run(&cpu(), Start::Resumed, Some(&files), stop_after(3)).unwrap();
    assert_eq!((part.interrupted, part.trainer.steps_taken()), (true, 3));
    let resumed = Cell::new(0);
    let rest = course.run(&cpu(), Start::Resumed, Some(&files), |event| {
        if let Event::Resumed { steps } = event {
            resumed.set(steps);
        }
        Flow::Continue
    });
    let rest = rest.unwrap();
    assert_eq!(resumed.get(), 3);
    let adapter = |run: &Finished| factors(&run.trainer.adapter().unwrap());
    assert_eq!(adapter(&rest), adapter(&whole), "bit for bit");
    assert_eq!(told(&rest.history), told(&whole.history));
    assert_eq!(
        told(&History::open(&files.metrics, usize::MAX).unwrap()),
        told(&whole.history)
    );
    files.clear().unwrap();
    assert!(!files.state.exists() && files.metrics.exists());
}

#[test]
fn another_run_s_state_is_refused() {
    let base = Checkpoint::demo().unwrap();
    let tokenizer = base.tokenizer().unwrap();
    let data = lines(8);
    let folder = Scratch::new("finetune-2");
    let files = Files::beside(&folder.join("adapter.safetensors"));
    let first = Finetune::prepare(&base, &tokenizer, &data, quick()).unwrap();
    first
        .course()
        .run(&cpu(), Start::Anew, Some(&files), |_| Flow::Stop)
        .unwrap();
    let other = FinetuneOptions {
        learning_rate: 2e-3,
        ..quick()
    };
    let other = Finetune::prepare(&base, &tokenizer, &data, other).unwrap();
    let error = other
        .course()
        .run(&cpu(), Start::Resumed, Some(&files), |_| Flow::Continue);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("a run with another"), "{error}");
}

#[test]
fn a_run_that_diverges_is_an_error_with_and_without_held_out_rows() {
    let base = Checkpoint::demo().unwrap();
    for val_split in [0.25, 0.0] {
        let options = FinetuneOptions {
            epochs: 1,
            learning_rate: 1e30,
            val_split,
            ..quick()
        };
        let run = Finetune::prepare(&base, &base.tokenizer().unwrap(), &lines(8), options).unwrap();
        let error = run.course().run(&cpu(), Start::Anew, None, |_| Flow::Continue).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("a lower learning rate"), "{val_split}: {error}");
    }
}

#[test]
fn equal_adapters_are_equal_files() {
    let base = Checkpoint::demo().unwrap();
    let run = Finetune::prepare(&base, &base.tokenizer().unwrap(), &lines(8), quick()).unwrap();
    let adapter = run
        .course()
        .run(&cpu(), Start::Anew, None, |_| Flow::Stop)
        .unwrap()
        .trainer
        .adapter()
        .unwrap();
    let folder = Scratch::new("finetune-equal");
    let files = ["a.safetensors", "b.safetensors", "c.safetensors"].map(|name| folder.join(name));
    let written = files.map(|path| {
        adapter.save(&path).unwrap();
        assert_eq!(factors(&Adapter::open(&path).unwrap()), factors(&adapter));
        std::fs::read(&path).unwrap()
    });
    assert!(written.iter().all(|bytes| *bytes == written[0]));
}

#[test]
fn an_early_stop_takes_the_best_look() {
    let base = Checkpoint::demo().unwrap();
    let options = FinetuneOptions {
        epochs: 30,
        // Far too fast, so that the held-out rows get worse soon.
        learning_rate: 0.05,
        eval_every: Some(1),
        early_stop: Some(2),
        ..quick()
    };
    let run = Finetune::prepare(&base, &base.tokenizer().unwrap(), &lines(8), options).unwrap();
    let course = run.course();
    let without_files = course.run(&cpu(), Start::Anew, None, |_| Flow::Continue).err().unwrap();
    assert!(without_files.to_string().contains("needs files"), "{without_files}");
    let folder = Scratch::new("finetune-3");
    let files = Files::beside(&folder.join("adapter.safetensors"));
    let ended = course
        .run(&cpu(), Start::Anew, Some(&files), |_| Flow::Continue)
        .unwrap();
    let (best, _) = ended.history.best().unwrap();
    assert_eq!(ended.trainer.steps_taken(), best);
    assert_eq!(ended.history.losses().len(), best + 2);
}

#[test]
fn thirty_two_rows_are_learnt_and_survive_the_export() {
    let base = Checkpoint::demo().unwrap();
    let tokenizer = base.tokenizer().unwrap();
    let data = lines(32);
    let options = FinetuneOptions {
        epochs: 40,
        batch_size: 16,
        learning_rate: 4e-3,
        adapter: AdapterShape { rank: 32, alpha: 64.0 },
        val_split: 0.0,
        ..FinetuneOptions::default()
    };
    let run = Finetune::prepare(&base, &tokenizer, &data, options).unwrap();
    let ended = run.course().run(&cpu(), Start::Anew, None, |_| Flow::Continue).unwrap();
    let adapter = ended.trainer.adapter().unwrap();
    let cases = score::cases(&data.rows);
    let exact = |model: &Checkpoint| {
        let engine = Engine::with_tokenizer(model, tokenizer.clone(), EngineOptions::from(DeviceSpec::Cpu)).unwrap();
        let report = score::evaluate(&engine, &cases, &EvalOptions::default(), |_| {}).unwrap();
        report.overall.exact.right
    };
    let merged = base.with_adapters(std::slice::from_ref(&adapter)).unwrap();
    assert_eq!(exact(&merged), 32);
    let map = BitMap::parse("4").unwrap();
    let verdict = judge(
        &base,
        &tokenizer,
        &adapter,
        &map,
        &data.rows,
        DeviceSpec::Cpu.into(),
        |_, _| {},
    )
    .unwrap();
    assert!(
        verdict.before.overall.exact.right < 20,
        "{:?}",
        verdict.before.overall.exact
    );
    assert!(
        verdict.after.overall.exact.right >= 31,
        "{:?}",
        verdict.after.overall.exact
    );
    // What was scored is what is written.
    let folder = Scratch::new("finetune-4");
    let path = folder.join("tuned.cact");
    merged.save_cact(&path, &map).unwrap();
    assert_eq!(
        exact(&Checkpoint::open(&path).unwrap()),
        verdict.after.overall.exact.right
    );

    let device = cpu();
    let plan = run.plan(&device).unwrap();
    let report = Report {
        base: "<demo>",
        device: &device.name,
        data: &data,
        options: run.options(),
        plan: &plan,
        history: &ended.history,
        verdict: Some(&verdict),
    };
    let page = report.html();
    assert!(page.contains("&lt;demo&gt;") && page.contains("<svg") && !page.contains("NaN"));
    assert!(page.contains(&verdict.after.overall.exact.words()));
    report.save(&folder.join("report.html")).unwrap();
}

#[test]
fn rows_that_do_not_fit_are_named() {
    let base = Checkpoint::demo().unwrap();
    let tokenizer = base.tokenizer().unwrap();
    let data = lines(8);
    let longest = data
        .rows
        .iter()
        .map(|row| row.encode(&tokenizer))
        .max_by_key(|row| row.len())
        .unwrap();
    let with_limit = |max_len| {
        let options = FinetuneOptions { max_len, ..quick() };
        Finetune::prepare(&base, &tokenizer, &data, options)
    };
    let plan = with_limit(longest.len() - 1).unwrap().plan(&cpu()).unwrap();
    assert_eq!((plan.cut.len(), plan.left_out.len()), (1, 0));
    assert_eq!((plan.cut[0].tokens, plan.cut[0].target_cut), (longest.len(), 1));
    let plan = with_limit(longest.prompt.len()).unwrap().plan(&cpu()).unwrap();
    assert_eq!(plan.rows + plan.held_out + plan.left_out.len(), 8);
    assert!(!plan.left_out.is_empty());
    let none = with_limit(3).err().unwrap().to_string();
    assert!(none.contains("no usable examples"), "{none}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let base = Checkpoint::demo().unwrap();
    let refused = |change: fn(&mut FinetuneOptions)| {
        let mut options = quick();
        change(&mut options);
        let outcome = Finetune::prepare(&base, &base.tokenizer().unwrap(), &lines(8), options);
        let outcome = outcome.and_then(|run| {
            let files = Files::beside(Path::new("unused"));
            run.course()
                .run(&cpu(), Start::Anew, Some(&files), |_| Flow::Stop)
                .map(drop)
        });
        outcome.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(|options| options.epochs = 0).contains("epoch"));
    assert!(refused(|options| options.batch_size = 0).contains("row a step"));
    assert!(refused(|options| options.val_split = 1.0).contains("held-out share"));
    assert!(refused(|options| options.eval_every = Some(0)).contains("between two looks"));
    assert!(refused(|options| options.early_stop = Some(0)).contains("early stop"));
    let none_held_out = |options: &mut FinetuneOptions| (options.val_split, options.early_stop) = (0.0, Some(1));
    assert!(refused(none_held_out).contains("needs held-out rows"));
    assert!(refused(|options| options.learning_rate = f64::NAN).contains("learning rate"));
}
