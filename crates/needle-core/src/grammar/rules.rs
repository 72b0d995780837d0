//! The productions of one grammar, on llguidance's own tables: terminals are lexemes, shared where they are equal.

use std::collections::HashMap;

use llguidance::api::GrammarInit;
use llguidance::derivre::RegexAst;
use llguidance::earley::lexerspec::{LexemeClass, LexemeIdx, LexerSpec};
use llguidance::earley::{BitIdx, Grammar, ParamCond, ParamExpr, ParamRef, ParamValue, SymIdx, SymbolProps};

use super::failure;
use crate::error::Result;

/// A symbol of the grammar.
pub(super) type Symbol = SymIdx;

/// Rules under construction.
pub(super) struct Rules {
    grammar: Grammar,
    lexemes: LexerSpec,
    class: LexemeClass,
    start: Symbol,
    terminals: HashMap<LexemeIdx, Symbol>,
    texts: HashMap<String, Symbol>,
    nothing: Option<Symbol>,
}

impl Rules {
    pub(super) fn new() -> Result<Self> {
        let mut lexemes = LexerSpec::new().map_err(failure)?;
        let class = lexemes.setup_lexeme_class(RegexAst::NoMatch).map_err(failure)?;
        lexemes.regex_builder.unicode(true).utf8(true);
        let mut grammar = Grammar::new(None);
        let start = grammar.fresh_symbol_ext(
            "start",
            SymbolProps {
                grammar_id: class,
                is_start: true,
                ..SymbolProps::default()
            },
        );
        Ok(Self {
            grammar,
            lexemes,
            class,
            start,
            terminals: HashMap::new(),
            texts: HashMap::new(),
            nothing: None,
        })
    }

    /// A new symbol without productions.
    pub(super) fn symbol(&mut self) -> Symbol {
        let props = SymbolProps {
            grammar_id: self.class,
            ..SymbolProps::default()
        };
        self.grammar.fresh_symbol_ext("", props)
    }

    /// Adds the production `symbol → parts`.
    pub(super) fn add(&mut self, symbol: Symbol, parts: &[Symbol]) -> Result<()> {
        self.grammar.add_rule(symbol, parts.to_vec()).map_err(failure)
    }

    /// The symbol of the empty text.
    pub(super) fn nothing(&mut self) -> Result<Symbol> {
        if let Some(symbol) = self.nothing {
            return Ok(symbol);
        }
        let symbol = self.symbol();
        self.add(symbol, &[])?;
        self.nothing = Some(symbol);
        Ok(symbol)
    }

    /// A terminal: the longest text that `ast` matches.
    pub(super) fn terminal(&mut self, ast: RegexAst) -> Result<Symbol> {
        let lexeme = self
            .lexemes
            .add_greedy_lexeme(String::new(), ast, false, None, usize::MAX)
            .map_err(failure)?;
        if let Some(symbol) = self.terminals.get(&lexeme) {
            return Ok(*symbol);
        }
        let symbol = self.symbol();
        self.grammar
            .make_terminal(symbol, lexeme, &self.lexemes)
            .map_err(failure)?;
        self.terminals.insert(lexeme, symbol);
        Ok(symbol)
    }

    /// A terminal of exactly this text.
    pub(super) fn text(&mut self, text: &str) -> Result<Symbol> {
        if let Some(symbol) = self.texts.get(text) {
            return Ok(*symbol);
        }
        let symbol = self.terminal(RegexAst::Literal(text.into()))?;
        self.texts.insert(text.into(), symbol);
        Ok(symbol)
    }

    /// All parts in a row.
    pub(super) fn sequence(&mut self, parts: &[Symbol]) -> Result<Symbol> {
        if let [part] = parts {
            return Ok(*part);
        }
        let symbol = self.symbol();
        self.add(symbol, parts)?;
        Ok(symbol)
    }

    /// One of the parts.
    pub(super) fn choice(&mut self, parts: &[Symbol]) -> Result<Symbol> {
        if let [part] = parts {
            return Ok(*part);
        }
        let symbol = self.symbol();
        for part in parts {
            self.add(symbol, &[*part])?;
        }
        Ok(symbol)
    }

    /// The part or nothing.
    fn optional(&mut self, part: Symbol) -> Result<Symbol> {
        let nothing = self.nothing()?;
        self.choice(&[nothing, part])
    }

    /// `least` to `most` times the part, in a number of productions that grows with the logarithm.
    pub(super) fn repeat(&mut self, part: Symbol, least: usize, most: Option<usize>) -> Result<Symbol> {
        let head = self.exactly(part, least)?;
        let tail = match most {
            None => {
                let star = self.symbol();
                self.add(star, &[])?;
                self.add(star, &[star, part])?;
                star
            }
            Some(most) => self.at_most(part, most.saturating_sub(least))?,
        };
        self.sequence(&[head, tail])
    }

    /// `least` to `most` items with commas between them, after `written` others; `None` where that cannot be.
    pub(super) fn items(
        &mut self,
        item: Option<Symbol>,
        written: usize,
        least: usize,
        most: Option<usize>,
    ) -> Result<Option<Symbol>> {
        let Some(item) = item.filter(|_| most != Some(0)) else {
            return if least == 0 { self.nothing().map(Some) } else { Ok(None) };
        };
        let comma = self.text(",")?;
        let next = self.sequence(&[comma, item])?;
        if written > 0 {
            return self.repeat(next, least, most).map(Some);
        }
        let rest = self.repeat(next, least.saturating_sub(1), most.map(|most| most - 1))?;
        let some = self.sequence(&[item, rest])?;
        if least > 0 {
            return Ok(Some(some));
        }
        self.optional(some).map(Some)
    }

    /// `least` to `most` different ones of at most 64 parts, with commas between them. The parts that were written are the
    /// bits of a number that the rule carries along.
    pub(super) fn distinct(&mut self, parts: &[Symbol], least: usize, most: usize) -> Result<Symbol> {
        let first = self.symbol();
        if least == 0 {
            self.add(first, &[])?;
        }
        if most == 0 {
            return Ok(first);
        }
        let comma = self.text(",")?;
        let rest = self.symbol();
        self.grammar.make_parametric(rest).map_err(failure)?;
        let enough = ParamCond::BitCountGE(ParamRef::full(), least as BitIdx);
        self.grammar.add_rule_ext(rest, enough, Vec::new()).map_err(failure)?;
        for (i, part) in parts.iter().enumerate() {
            let written = ParamValue(1 << i);
            let begin = vec![(*part, ParamExpr::Null), (rest, ParamExpr::Const(written))];
            self.grammar
                .add_rule_ext(first, ParamCond::True, begin)
                .map_err(failure)?;
            let missing = ParamCond::EQ(ParamRef::single_bit(i as BitIdx), ParamValue(0));
            let room = ParamCond::BitCountLT(ParamRef::full(), most as BitIdx);
            let go_on = vec![
                (comma, ParamExpr::Null),
                (*part, ParamExpr::Null),
                (rest, ParamExpr::BitOr(written)),
            ];
            let both = ParamCond::And(Box::new(missing), Box::new(room));
            self.grammar.add_rule_ext(rest, both, go_on).map_err(failure)?;
        }
        Ok(first)
    }

    /// `count` times the part, by doubling.
    fn exactly(&mut self, part: Symbol, count: usize) -> Result<Symbol> {
        let (mut parts, mut power, mut left) = (Vec::new(), part, count);
        while left > 0 {
            if left % 2 == 1 {
                parts.push(power);
            }
            left /= 2;
            if left > 0 {
                power = self.sequence(&[power, power])?;
            }
        }
        match parts.is_empty() {
            true => self.nothing(),
            false => self.sequence(&parts),
        }
    }

    /// Up to `count` times the part: one production for every set bit of `count + 1`, which stands for that many whole
    /// blocks followed by fewer than one block more, spelt as optional powers of two.
    fn at_most(&mut self, part: Symbol, count: usize) -> Result<Symbol> {
        let total = count + 1;
        let (mut powers, mut fewer) = (vec![part], vec![self.nothing()?]);
        for level in 1..=total.ilog2() as usize {
            let (power, below) = (powers[level - 1], fewer[level - 1]);
            let half = self.optional(power)?;
            fewer.push(self.sequence(&[half, below])?);
            powers.push(self.sequence(&[power, power])?);
        }
        let (mut options, mut whole) = (Vec::new(), Vec::new());
        for level in (0..=total.ilog2() as usize)
            .rev()
            .filter(|level| total >> level & 1 == 1)
        {
            let mut parts = whole.clone();
            parts.push(fewer[level]);
            options.push(self.sequence(&parts)?);
            whole.push(powers[level]);
        }
        self.choice(&options)
    }

    /// Makes `symbol` the whole of the grammar.
    pub(super) fn finish(mut self, symbol: Symbol) -> Result<GrammarInit> {
        let start = self.start;
        self.add(start, &[symbol])?;
        Ok(GrammarInit::Internal(self.grammar, self.lexemes))
    }
}
