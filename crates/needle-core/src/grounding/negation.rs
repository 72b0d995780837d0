//! Whether a text asks that something be left undone.
//!
//! The reference's engine decides this in closed code, so the rule is ours, for English, and errs towards "no": a missed
//! negation leaves a call to the user's judgement, an invented one refuses a good call. A text is a negation where
//!
//! 1. **it is taken back:** it ends in "never mind", "scratch that", "wait, cancel it" and the like; or
//! 2. **its command is forbidden:** one sentence begins with a [`NEGATORS`] entry, politeness and names aside ("Alexa,
//!    please don't …"), and nothing else in the text asks for anything.
//!
//! For the second, none of these may hold: the words after the negator make an idiom ("don't forget to …", "do not
//! disturb"); the sentence makes an exception ("until", "unless", "but", "instead"); a later clause begins with a verb
//! of command ("don't call, text her") or wishes for something; another sentence is more than a short remark; the
//! negator stands inside quotes or after a colon. Texts over [`LONGEST`] words are documents, not commands.

use super::scan::is_word;

/// Words of the longest text that is judged.
const LONGEST: usize = 60;

/// Words of the longest remark beside a forbidden command.
const LONGEST_REMARK: usize = 8;

/// Beginnings that forbid what follows.
const NEGATORS: &str = "\
    don't|dont|do not|never|let's not|lets not|let us not|no need to|there's no need to|theres no need to|\
    there is no need to|not necessary to|it's not necessary to|it is not necessary to|you don't need to|\
    you do not need to|you don't have to|you do not have to|you need not|you needn't|you should not|you shouldn't|\
    you must not|you mustn't|i don't want you to|i do not want you to|i don't need you to|i do not need you to|\
    i'd rather you didn't|i said don't|i said do not|i told you not to|can you not|could you not|can you please not|could you please not|make sure not to|\
    make sure you don't|make sure you do not|refrain from|under no circumstances";

/// What may follow a negator without forbidding anything.
const IDIOMS: &str = "\
    forget|let me forget|let us forget|hesitate|fail|neglect|worry|mind|care|disturb|just|only|know|think|feel|have|\
    understand|remember|want|need|like|see|gonna|going|been|had|heard|seen|tried|look up|i|we|they|you think|\
    you have|you want";

/// Words that turn a prohibition into a request with conditions.
const EXCEPTIONS: &str = "\
    until till unless except before if instead rather prefer want need i'd only without";

/// Words that only introduce what is said.
const OPENERS: &str = "\
    please pls hey hi hello ok okay oh uh um hmm no nope wait actually sorry well so and just now then listen also \
    today tonight tomorrow thanks ever but , seriously";

/// Words after which a taken-back clause may follow without a comma.
const HESITATIONS: &str = "actually no wait oh sorry hmm ok okay well";

/// Clauses that take back all before them; alone, they ask for nothing.
const RETRACTIONS: &str = "\
    never mind|nevermind|nvm|forget it|forget that|forget about it|scratch that|don't|do not|i changed my mind|\
    i've changed my mind|changed my mind";

/// Beginnings of remarks.
const REMARKS: &str = "\
    i i'm i've i'll we we're it it's that that's this he he's she she's they they're there there's my thanks thank \
    too not";

/// Verbs with which a clause asks for something.
const COMMANDS: &str = "\
    activate add adjust answer arm ask begin book brew bring buy call cancel change check clean clear close connect \
    convert cook copy create decrease delete dim disable dismiss do download draft email enable find get give go \
    heat hide increase install keep leave let list lock log look lower make mark message move mute navigate note \
    open order pause pay pick play post preheat print put raise read record remind reminder remove rename repeat \
    reply reschedule reserve resume run save say schedule search send set share show shuffle shut skip snooze start \
    stop switch take tell text translate turn unlock update use wake write";

/// Whether the text negates its request, for `validation.negation`.
///
/// True for "don't pause the music", "please never call him again", "set a timer, no wait, cancel it"; false for "don't
/// forget the milk", "don't call him, text him", "tell Ann don't wait", "play Don't Stop Me Now".
pub fn negation(text: &str) -> bool {
    let sentences = sentences(text);
    let words = sentences.iter().map(|sentence| sentence.words.len()).sum::<usize>();
    words <= LONGEST && (is_taken_back(&sentences) || is_forbidden(&sentences))
}

/// Words in lower case; commas, colons, and quotations (as `"`) are words too.
#[derive(Default)]
struct Sentence {
    words: Vec<String>,
    is_question: bool,
}

fn sentences(text: &str) -> Vec<Sentence> {
    let text = text.to_lowercase().replace(['\u{2019}', '\u{2bc}', '`'], "'");
    let mut done = Vec::new();
    let mut open = Sentence::default();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let ends_here = rest.peek().is_none_or(|next| next.is_whitespace());
        match c {
            _ if is_word(c) => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|c| is_word(*c) || *c == '\'') {
                    word.push(c);
                }
                open.words.push(word);
            }
            '"' | '\u{201c}' => {
                rest.by_ref().find(|c| matches!(c, '"' | '\u{201d}'));
                open.words.push("\"".into());
            }
            ',' | '\u{2013}' | '\u{2014}' => open.words.push(",".into()),
            '-' if ends_here => open.words.push(",".into()),
            ':' if ends_here => open.words.push(":".into()),
            '.' if !ends_here || open.words.last().is_some_and(|word| is_abbreviation(word)) => {}
            '.' | '!' | '?' | ';' | '\n' | '\u{2026}' => {
                open.is_question = c == '?';
                done.push(std::mem::take(&mut open));
            }
            _ => {}
        }
    }
    done.push(open);
    done.retain(|sentence| !sentence.words.is_empty());
    done
}

fn is_abbreviation(word: &str) -> bool {
    matches!(word, "mr" | "mrs" | "ms" | "dr" | "st" | "prof" | "vs") || word.chars().count() == 1
}

fn is_taken_back(sentences: &[Sentence]) -> bool {
    let Some((last, before)) = sentences.split_last() else {
        return false;
    };
    let words = &last.words;
    let start = |phrase: &str| {
        let start = words.len().checked_sub(phrase.split(' ').count())?;
        starts_with(&words[start..], phrase).map(|_| start)
    };
    let hesitates = |start: usize| start > 0 && lists(HESITATIONS, &words[start - 1]);
    let begins = |start: usize| start == 0 || words[start - 1] == ",";
    RETRACTIONS
        .split('|')
        .filter_map(start)
        .any(|start| begins(start) || hesitates(start))
        || start("cancel that").is_some_and(|at| hesitates(at) || begins(at) && (at > 0 || !before.is_empty()))
        || start("cancel it").is_some_and(|at| hesitates(at) || at > 1 && begins(at) && hesitates(at - 1))
}

fn is_forbidden(sentences: &[Sentence]) -> bool {
    let forbids = |sentence: &&Sentence| forbidden_part(&sentence.words).is_some();
    let is_plain = |sentence: &Sentence| match forbidden_part(&sentence.words) {
        Some(rest) => is_prohibition(rest) && !(sentence.is_question && is_pronoun(rest)),
        None => is_remark(&sentence.words),
    };
    sentences.iter().any(|sentence| forbids(&sentence)) && sentences.iter().all(is_plain)
}

/// What follows the negator that a sentence begins with.
fn forbidden_part(words: &[String]) -> Option<&[String]> {
    let address = words
        .iter()
        .take(3)
        .position(|word| word == ",")
        .filter(|at| *at > 0 && !is_command(&words[0]));
    let addressed = address.map(|comma| &words[comma + 1..]);
    [Some(words), addressed].into_iter().flatten().find_map(|words| {
        let openers = words.iter().take_while(|word| lists(OPENERS, word)).count();
        (0..=openers).find_map(|from| {
            NEGATORS
                .split('|')
                .find_map(|negator| starts_with(&words[from..], negator))
        })
    })
}

/// Whether the words after a negator are one prohibition and no more.
fn is_prohibition(rest: &[String]) -> bool {
    let is_idiom = IDIOMS.split('|').any(|idiom| starts_with(rest, idiom).is_some());
    let excepts = rest.iter().any(|word| lists(EXCEPTIONS, word));
    let contrasts = rest
        .windows(2)
        .any(|pair| pair[0] == "but" && !lists(REMARKS, &pair[1]));
    let asks = rest.iter().enumerate().any(|(at, word)| {
        let joins = matches!(word.as_str(), "," | "and" | "so" | "then" | "but" | "just" | "or");
        joins && is_request(&rest[at + 1..])
    });
    !(rest.is_empty() || is_idiom || excepts || contrasts || asks)
}

/// Whether a sentence beside the forbidden command is a short remark that asks for nothing.
fn is_remark(words: &[String]) -> bool {
    let is_short = words.len() <= 3 || lists(REMARKS, &words[0]) && words.len() <= LONGEST_REMARK;
    let excepts = words.iter().any(|word| lists(EXCEPTIONS, word));
    is_short && !excepts && !is_request(words)
}

/// Whether a clause begins with a verb of command, openers aside.
fn is_request(words: &[String]) -> bool {
    words
        .iter()
        .find(|word| !lists(OPENERS, word))
        .is_some_and(|word| is_command(word))
}

/// Whether a list of words, parted by spaces, has this one.
fn lists(list: &str, word: &str) -> bool {
    list.split(' ').any(|entry| entry == word)
}

fn is_command(word: &str) -> bool {
    lists(COMMANDS, word)
}

fn is_pronoun(words: &[String]) -> bool {
    words
        .first()
        .is_some_and(|word| matches!(word.as_str(), "i" | "we" | "you" | "they" | "he" | "she" | "it"))
}

/// The rest of the words where they start with a phrase.
fn starts_with<'a>(words: &'a [String], phrase: &str) -> Option<&'a [String]> {
    let count = phrase.split(' ').count();
    let (head, rest) = words.split_at_checked(count)?;
    phrase.split(' ').eq(head.iter().map(String::as_str)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prohibitions_and_retractions() {
        for text in [
            "don't pause the music, I like it",
            "Don\u{2019}t call Dr. Meyer",
            "dont wake the baby",
            "do not set the volume to 11.5",
            "never email the boss again",
            "Please do not order pizza tonight.",
            "Alexa, don't open the garage",
            "hey google, please never play that",
            "no, don't send it",
            "I said don't turn the heating up",
            "No need to book a table",
            "there's no need to water the plants",
            "You don't have to log the 12.30 for lunch",
            "i don't want you to delete my notes",
            "can you please not share my location?",
            "could you not play that song?",
            "make sure you don't lock the door",
            "I am on the train. Don't ring me!",
            "Don't start the oven. Thanks!",
            "tonight don't run the dishwasher",
            "don't bother sending a reminder",
            "never turn off the alarm while I sleep",
            "never mind",
            "Set a timer for ten minutes, never mind",
            "Book a table for two. Scratch that.",
            "Book a table for two - nevermind",
            "order two pizzas... no wait, cancel it",
            "Order two pizzas, cancel that",
            "turn on the fan actually don't",
            "Call Ann. I've changed my mind.",
        ] {
            assert!(negation(text), "{text:?}");
        }
    }

    #[test]
    fn requests_stay_requests() {
        for text in [
            "",
            "turn on the fan",
            "cancel that",
            "cancel my alarm",
            "find the order, cancel it",
            "stop the music",
            "don't forget to buy milk",
            "Don't let me forget the dentist on Friday",
            "don't worry, play something calm",
            "do not disturb",
            "turn do not disturb on",
            "don't call him, text him",
            "don't play rock but jazz",
            "don't turn left and take the bridge",
            "don't play rock, play jazz instead",
            "Don't play rock. I want jazz.",
            "Don't use the oven. Heat the soup in the microwave for 3 minutes.",
            "don't wake me until 8",
            "don't start the heating unless it is cold",
            "don't I have a meeting at 3?",
            "don't know what to cook, find a recipe",
            "why don't you play some music",
            "tell Ann don't wait for me",
            "message Bob: don't be late",
            "note: don't buy eggs",
            "\"don't look back\" by Boston",
            "play \"never say never\"",
            "play don't stop me now",
            "never gonna give you up",
            "play nevermind",
            "never mind the weather, book the flight",
            "I don't have milk, add it to the list",
            "I never eat meat",
            "I don't open mails on Sundays",
            "Do not reply to this message. Your invoice INV-7 over 30.00 is due on 5 June 2026.",
            "Set an alarm for 7. Don't repeat it.",
        ] {
            assert!(!negation(text), "{text:?}");
        }
    }

    #[test]
    fn documents_are_not_judged() {
        let text = format!("don't pay{}", " this".repeat(58));
        assert!(negation(&text));
        assert!(!negation(&format!("{text} this")));
    }
}
