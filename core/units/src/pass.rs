//! Delegation of trait functions to another value that implements the trait.

/// Declares a function for `impl $of for …` that delegates to the same function of an inner
/// value. `$to` is the path from `self` to the inner value, as `[|own| &own.below]`, or a
/// choice of two, as `[Self::A(below) => below, Self::B(below) => below]`. Each trait of
/// stacked layers wraps this macro in its own one, which lists the functions of the trait;
/// the types in their signatures must be in scope at the call.
#[macro_export]
macro_rules! pass_on {
    (@call [|$own:ident| $below:expr]
        $self:ident $of:ident $name:ident ($($arg:ident),*) $($wait:tt)*) => {{
        let $own = $self;
        <_ as $of>::$name($below, $($arg),*) $($wait)*
    }};
    (@call [$first:pat => $one:expr, $second:pat => $other:expr]
        $self:ident $of:ident $name:ident ($($arg:ident),*) $($wait:tt)*) => {
        match $self {
            $first => <_ as $of>::$name($one, $($arg),*) $($wait)*,
            $second => <_ as $of>::$name($other, $($arg),*) $($wait)*,
        }
    };
    ($to:tt $of:ident: fn $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)?) => {
        fn $name(&self, $($arg: $type),*) $(-> $out)? {
            $crate::pass_on!(@call $to self $of $name ($($arg),*))
        }
    };
    ($to:tt $of:ident: async fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        async fn $name(&self, $($arg: $type),*) -> $out {
            $crate::pass_on!(@call $to self $of $name ($($arg),*) .await)
        }
    };
}
